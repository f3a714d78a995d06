// SPDX-License-Identifier: Apache-2.0

// Client stands in for the kubelet beside an unmodified device plugin: it reads ListAndWatch and
// prints each list of devices, one "ID HEALTH NUMA" a line and an empty line behind a list.
//
// Usage: client SOCKET LISTS SECONDS: ends after LISTS lists (0) or SECONDS (1).
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func numa(d *pluginapi.Device) string {
	if d.Topology == nil || len(d.Topology.Nodes) == 0 {
		return "-"
	}
	return strconv.FormatInt(d.Topology.Nodes[0].ID, 10)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: client SOCKET LISTS SECONDS")
		os.Exit(2)
	}
	lists, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stream, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	for ; err == nil && lists > 0; lists-- {
		var r *pluginapi.ListAndWatchResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		sort.Slice(r.Devices, func(i, j int) bool { return r.Devices[i].ID < r.Devices[j].ID })
		for _, d := range r.Devices {
			fmt.Println(d.ID, d.Health, numa(d))
		}
		fmt.Println()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
