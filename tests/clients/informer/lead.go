package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead stands for election until its context ends; then it gives the Lease back.
func lead(ctx context.Context, config *rest.Config, namespace, name, identity string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say(map[string]any{"event": "leading"}) },
			OnStoppedLeading: func() { say(map[string]any{"event": "stopped"}) },
			OnNewLeader: func(leader string) {
				say(map[string]any{"event": "leader", "identity": leader})
			},
		},
	})
	return nil
}
