// A program without a C library: it makes its system calls itself, on many threads, with a
// runtime that sends itself signals, and resolves names itself.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3])
		return
	}
	var group sync.WaitGroup
	answers := make([]string, 100)
	for i := range answers {
		group.Add(1)
		go func() {
			defer group.Done()
			answers[i] = call(os.Args[2])
		}()
	}
	group.Wait()
	counts := map[string]int{}
	for _, answer := range answers {
		counts[answer]++
	}
	fmt.Println(counts)
}

func serve(address, name string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(client, name)
		client.Close()
	}
}

func call(address string) string {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer connection.Close()
	answer, err := io.ReadAll(connection)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}
