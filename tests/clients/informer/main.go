// A client-go program as people write them: informers, a typed clientset, leader election.
//
//	informer KUBECONFIG watch NAMESPACE GROUP/VERSION/RESOURCE
//	informer KUBECONFIG write NAMESPACE
//	informer KUBECONFIG churn NAMESPACE COUNT
//	informer KUBECONFIG lead NAMESPACE LEASE IDENTITY
//
// What happens is printed as lines of JSON. Those that go on end when their input does, so that
// they never outlive who started them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("usage: informer KUBECONFIG watch|write|churn|lead NAMESPACE ...")
	}
	config, err := clientcmd.BuildConfigFromFlags("", words[0])
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	verb, namespace, rest := words[1], words[2], words[3:]
	switch {
	case verb == "watch" && len(rest) == 1:
		return watchIn(config, namespace, rest[0])
	case verb == "write" && len(rest) == 0:
		return write(context.Background(), config, namespace)
	case verb == "churn" && len(rest) == 1:
		count, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		return churn(context.Background(), config, namespace, count)
	case verb == "lead" && len(rest) == 2:
		return lead(untilInputEnds(nil), config, namespace, rest[0], rest[1])
	}
	return fmt.Errorf("no such command: %q", words[1:])
}

func watchIn(config *rest.Config, namespace, custom string) error {
	parts := strings.Split(custom, "/")
	if len(parts) != 3 {
		return fmt.Errorf("%q is not GROUP/VERSION/RESOURCE", custom)
	}
	resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	return watch(config, namespace, resource)
}

// untilInputEnds is done at the end of standard input; each line of it is told.
func untilInputEnds(told func(line string)) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if told != nil {
				told(lines.Text())
			}
		}
	}()
	return ctx
}

var printing sync.Mutex

func say(fields map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(fields); err != nil {
		os.Exit(1) // nobody listens any more
	}
}
