// SPDX-License-Identifier: Apache-2.0

// Kubelet stands in for the kubelet beside a device plugin, ours or another, and prints what it is told,
// so that two plugins can be compared with diff: the resources in order, the devices of each, and the
// answers to requests for each device alone and for the first two together.
//
// Usage: kubelet DIR RESOURCES SECONDS: serves DIR/kubelet.sock, waits until so many resources have
// registered, or for so long (exit 1), and then a little longer for those that should not be.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// For resources that should not be: behind the last that should, and where there should be none.
const (
	grace     = 300 * time.Millisecond
	longGrace = 3 * time.Second
)

// What is made anew for each answer.
var random = regexp.MustCompile(`_[0-9a-f]{8}-[0-9a-f-]{27}$`)

type registry struct {
	pluginapi.UnimplementedRegistrationServer
	requests chan *pluginapi.RegisterRequest
}

func (r *registry) Register(_ context.Context, q *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	r.requests <- q
	return &pluginapi.Empty{}, nil
}

// Registrations by resource: WANT of them, and any that come within the time of grace.
func collect(requests <-chan *pluginapi.RegisterRequest, want int, limit time.Duration) map[string]*pluginapi.RegisterRequest {
	found := map[string]*pluginapi.RegisterRequest{}
	end := time.After(limit)
	if want == 0 {
		end = time.After(longGrace)
	}
	for {
		select {
		case q := <-requests:
			found[q.ResourceName] = q
			if len(found) == want {
				end = time.After(grace)
			}
		case <-end:
			return found
		}
	}
}

func numa(d *pluginapi.Device) string {
	if d.Topology == nil || len(d.Topology.Nodes) == 0 {
		return "-"
	}
	return strconv.FormatInt(d.Topology.Nodes[0].ID, 10)
}

// NVIDIA gives indices in an order that is no order; UUIDs come as they were asked for.
func settle(value string) string {
	parts := strings.Split(value, ",")
	if !strings.Contains(value, "-") {
		sort.Strings(parts)
	}
	return strings.Join(parts, ",")
}

func show(c *pluginapi.ContainerAllocateResponse, several bool) {
	var lines []string
	for k, v := range c.Envs {
		lines = append(lines, "    env "+k+"="+settle(v))
	}
	for k, v := range c.Annotations {
		lines = append(lines, "    annotation "+random.ReplaceAllString(k, "_RANDOM")+"="+v)
	}
	for _, m := range c.Mounts {
		lines = append(lines, fmt.Sprintf("    mount %s at %s %v", m.HostPath, m.ContainerPath, m.ReadOnly))
	}
	sort.Strings(lines)
	start := len(lines)
	for _, d := range c.Devices {
		lines = append(lines, fmt.Sprintf("    device %s at %s %s", d.HostPath, d.ContainerPath, d.Permissions))
	}
	if several { // NVIDIA has the devices in an order that is no order
		sort.Strings(lines[start:])
	}
	for _, d := range c.CdiDevices {
		lines = append(lines, "    cdi "+d.Name)
	}
	for _, line := range lines {
		fmt.Println(line)
	}
}

func allocate(ctx context.Context, plugin pluginapi.DevicePluginClient, containers ...[]string) {
	q := &pluginapi.AllocateRequest{}
	for _, ids := range containers {
		q.ContainerRequests = append(q.ContainerRequests, &pluginapi.ContainerAllocateRequest{DevicesIds: ids})
	}
	fmt.Println("  allocate", containers)
	r, err := plugin.Allocate(ctx, q)
	if err != nil {
		fmt.Println("    error:", err)
		return
	}
	for i, c := range r.ContainerResponses {
		show(c, len(containers[i]) > 1)
	}
}

func ask(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	plugin := pluginapi.NewDevicePluginClient(conn)
	o, err := plugin.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil {
		return err
	}
	fmt.Println("  options", o.PreStartRequired, o.GetPreferredAllocationAvailable)
	stream, err := plugin.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		return err
	}
	list, err := stream.Recv()
	if err != nil {
		return err
	}
	sort.Slice(list.Devices, func(i, j int) bool { return list.Devices[i].ID < list.Devices[j].ID })
	var ids []string
	for _, d := range list.Devices {
		fmt.Println("  device", d.ID, d.Health, "numa", numa(d))
		ids = append(ids, d.ID)
	}
	for _, id := range ids {
		allocate(ctx, plugin, []string{id})
	}
	if len(ids) > 1 {
		allocate(ctx, plugin, []string{ids[1], ids[0]})
		allocate(ctx, plugin, ids[:1], ids[1:2])
	}
	allocate(ctx, plugin, []string{"MIG-none"})
	return nil
}

func run(dir string, want int, limit time.Duration) error {
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	r := &registry{requests: make(chan *pluginapi.RegisterRequest)}
	pluginapi.RegisterRegistrationServer(server, r)
	go server.Serve(listener)
	defer server.Stop()
	found := collect(r.requests, want, limit)
	var names []string
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, name := range names {
		q := found[name]
		fmt.Println(name, q.Version, q.Options.GetPreStartRequired(), q.Options.GetGetPreferredAllocationAvailable())
		if err := ask(ctx, filepath.Join(dir, q.Endpoint)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(names) != want {
		return fmt.Errorf("%d resources, expected %d: %v", len(names), want, names)
	}
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: kubelet DIR RESOURCES SECONDS")
		os.Exit(2)
	}
	want, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	if err := run(os.Args[1], want, time.Duration(seconds)*time.Second); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
