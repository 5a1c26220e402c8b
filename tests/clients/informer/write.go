package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreconfig "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const writers = 16

// write goes through the verbs of a typed clientset on one pod, and tells what each answered.
func write(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := clients.CoreV1().Pods(namespace)
	container := corev1.Container{Name: "c", Image: "registry.example.com/c"}
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-", Labels: map[string]string{"step": "create"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, SchedulerName: "nobody"},
	}, metav1.CreateOptions{})
	tell := func(step string) {
		say(map[string]any{
			"event": step, "name": pod.Name, "labels": pod.Labels, "phase": pod.Status.Phase,
			"policy": pod.Spec.RestartPolicy, "message": pod.Status.Message,
		})
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	tell("created")
	pod.Labels["step"] = "update"
	if pod, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	tell("updated")
	pod.Status.Message = "told by its kubelet"
	if pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	tell("told")
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.MergePatchType} {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"step":"%s"}}}`, kind[len("application/"):][:5])
		if pod, err = pods.Patch(ctx, pod.Name, kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		tell("patched")
	}
	wanted := coreconfig.Pod(pod.Name, namespace).WithLabels(map[string]string{"applied": "yes"})
	if pod, err = pods.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "informer"}); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	tell("applied")
	now := int64(0)
	if err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	left, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	say(map[string]any{"event": "deleted", "left": len(left.Items)})
	return nil
}

// churn creates `count` ConfigMaps, changes each, and deletes every second one, several at a time.
func churn(ctx context.Context, config *rest.Config, namespace string, count int) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := clients.CoreV1().ConfigMaps(namespace)
	numbers, failures := make(chan int), make(chan error, count)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for number := range numbers {
				name := fmt.Sprintf("churn-%d", number)
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
				object, err := maps.Create(ctx, object, metav1.CreateOptions{})
				if err == nil {
					object.Data = map[string]string{"number": name}
					_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
				}
				if err == nil && number%2 == 1 {
					err = maps.Delete(ctx, name, metav1.DeleteOptions{})
				}
				if err != nil {
					failures <- err
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	all.Wait()
	close(failures)
	for failure := range failures {
		return failure
	}
	say(map[string]any{"event": "churned", "count": count})
	return nil
}
