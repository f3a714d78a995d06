// SPDX-License-Identifier: Apache-2.0

// Command cri stands in for a container runtime in tests: the CRI API on a unix socket, with each
// container a real process in namespaces and a root file system of its own. What the kubelet asked
// for is recorded as it came, one JSON line for each container.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// words collects a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

// options are the command line of `cri serve`.
type options struct {
	listen, state, record, images, layers, root, deny, ip, runtime, gpuslice string
	env, mounts                                                              words
}

func parseOptions(args []string) options {
	var o options
	f := flag.NewFlagSet("cri serve", flag.ExitOnError)
	f.StringVar(&o.listen, "listen", "", "unix socket to serve")
	f.StringVar(&o.state, "state", "", "scratch directory for root file systems; not on an overlay")
	f.StringVar(&o.record, "record", "", "file for one JSON line of each CreateContainer")
	f.StringVar(&o.images, "images", "", "table of images: PATTERN LAYER[,LAYER]|- [ENTRYPOINT...]")
	f.StringVar(&o.layers, "layers", "", "directory of the layers that the table names")
	f.StringVar(&o.root, "root", "/", "lowest layer of every image")
	f.StringVar(&o.deny, "deny", "", "file with patterns of images that cannot be pulled")
	f.StringVar(&o.ip, "ip", "127.0.0.1", "address of every pod")
	f.StringVar(&o.runtime, "default-runtime", "runc", "runc or nvidia, for pods without a class")
	f.StringVar(&o.gpuslice, "gpuslice", "gpuslice", "program that shows the simulated node")
	f.Var(&o.env, "env", "NAME=VALUE for every container")
	f.Var(&o.mounts, "mount", "path of the node that is seen in every container")
	_ = f.Parse(args)
	if f.NArg() > 0 || o.listen == "" || o.state == "" {
		f.Usage()
		os.Exit(2)
	}
	return o
}

func serve(args []string) error {
	o := parseOptions(args)
	images, err := loadImages(o)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.state); err != nil {
		return err
	}
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(o.listen); err != nil {
		return err
	}
	lis, err := net.Listen("unix", o.listen)
	if err != nil {
		return err
	}
	r := newRuntime(o, images)
	if err := r.serveStreams(); err != nil {
		return err
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, r)
	cri.RegisterImageServiceServer(server, images)
	return server.Serve(lis)
}

// pause is what runs in a container that has nothing to do: until it is told to end.
func pause() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	switch verb {
	case "serve":
		log.Fatal(serve(os.Args[2:]))
	case "init":
		initMain()
	case "pause":
		pause()
	default:
		fmt.Fprintln(os.Stderr, "usage: cri serve --listen SOCKET --state DIR [OPTION...] | cri pause")
		os.Exit(2)
	}
}
