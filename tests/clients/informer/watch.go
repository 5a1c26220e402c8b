package main

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watch keeps shared informers on pods, configmaps and a custom resource, and tells each event.
// To each line of input it answers with what the caches hold.
func watch(config *rest.Config, namespace string, custom schema.GroupVersionResource) error {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	builtin := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(namespace))
	dynamics := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, nil)
	informers := map[string]cache.SharedIndexInformer{
		"pods":          builtin.Core().V1().Pods().Informer(),
		"configmaps":    builtin.Core().V1().ConfigMaps().Informer(),
		custom.Resource: dynamics.ForResource(custom).Informer(),
	}
	for name, informer := range informers {
		if _, err := informer.AddEventHandler(teller(name)); err != nil {
			return err
		}
	}
	ctx := untilInputEnds(func(string) { sayCaches(informers) })
	builtin.Start(ctx.Done())
	dynamics.Start(ctx.Done())
	for name, informer := range informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil
		}
		say(map[string]any{"event": "synced", "resource": name})
	}
	<-ctx.Done()
	builtin.Shutdown()
	dynamics.Shutdown()
	return nil
}

func teller(resource string) cache.ResourceEventHandler {
	tell := func(event string, object any) {
		last := object
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			event, last = "vanished", gone.Obj
		}
		metadata, err := meta.Accessor(last)
		if err != nil {
			return
		}
		say(map[string]any{
			"event": event, "resource": resource,
			"name": metadata.GetName(), "version": metadata.GetResourceVersion(),
		})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("added", object) },
		UpdateFunc: func(_, object any) { tell("changed", object) },
		DeleteFunc: func(object any) { tell("deleted", object) },
	}
}

func sayCaches(informers map[string]cache.SharedIndexInformer) {
	caches := map[string]map[string]string{}
	for resource, informer := range informers {
		caches[resource] = map[string]string{}
		for _, object := range informer.GetStore().List() {
			metadata := object.(metav1.Object)
			caches[resource][metadata.GetName()] = metadata.GetResourceVersion()
		}
	}
	say(map[string]any{"event": "caches", "caches": caches})
}
