// SPDX-License-Identifier: Apache-2.0
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is a pod: names and addresses only, since its containers share the node's network.
type sandbox struct {
	id, handler string
	config      *cri.PodSandboxConfig
	created     time.Time
	state       cri.PodSandboxState
}

// runtime is the RuntimeService: all pods and containers of one node, in memory. When it dies, its
// containers die with it, and the kubelet makes them anew.
type runtime struct {
	cri.UnimplementedRuntimeServiceServer
	options
	images     *imageService
	streams    streams
	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
}

func newRuntime(o options, images *imageService) *runtime {
	return &runtime{options: o, images: images, sandboxes: map[string]*sandbox{},
		containers: map[string]*container{}}
}

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// handlers are the runtime classes' handlers that this node has.
var handlers = []string{"", "runc", "nvidia"}

func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "no %s %q", what, id)
}

func (r *runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "gpuslice-test-cri",
		RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (r *runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	res := &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true}}}}
	for _, h := range handlers {
		res.RuntimeHandlers = append(res.RuntimeHandlers, &cri.RuntimeHandler{Name: h,
			Features: &cri.RuntimeHandlerFeatures{}})
	}
	return res, nil
}

func (r *runtime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{
		CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

func (r *runtime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

func (r *runtime) RunPodSandbox(_ context.Context, q *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	if !slices.Contains(handlers, q.RuntimeHandler) {
		return nil, status.Errorf(codes.InvalidArgument,
			"no runtime for %q is configured", q.RuntimeHandler)
	}
	if dir := q.Config.LogDirectory; dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	s := &sandbox{id: newID(), handler: q.RuntimeHandler, config: q.Config, created: time.Now(),
		state: cri.PodSandboxState_SANDBOX_READY}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.id] = s
	return &cri.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// of lists the containers of a pod.
func (r *runtime) of(sandboxID string) []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*container
	for _, c := range r.containers {
		if c.sandbox.id == sandboxID {
			list = append(list, c)
		}
	}
	return list
}

func (r *runtime) StopPodSandbox(_ context.Context, q *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	for _, c := range r.of(q.PodSandboxId) {
		c.stop(0)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[q.PodSandboxId]; s != nil {
		s.state = cri.PodSandboxState_SANDBOX_NOTREADY
	}
	return &cri.StopPodSandboxResponse{}, nil
}

func (r *runtime) RemovePodSandbox(_ context.Context, q *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	for _, c := range r.of(q.PodSandboxId) {
		r.remove(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, q.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

func (r *runtime) PodSandboxStatus(_ context.Context, q *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.PodSandboxId]
	if s == nil {
		return nil, notFound("pod sandbox", q.PodSandboxId)
	}
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: s.id, Metadata: s.config.Metadata, State: s.state, CreatedAt: s.created.UnixNano(),
		Network: &cri.PodSandboxNetworkStatus{Ip: r.ip}, Labels: s.config.Labels,
		Annotations: s.config.Annotations, RuntimeHandler: s.handler,
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}}, nil
}

// selected says whether all wanted labels are there.
func selected(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (r *runtime) ListPodSandbox(_ context.Context, q *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	f := q.GetFilter()
	res := &cri.ListPodSandboxResponse{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.Id != s.id || f.GetState() != nil && f.State.State != s.state ||
			!selected(s.config.Labels, f.GetLabelSelector()) {
			continue
		}
		res.Items = append(res.Items, &cri.PodSandbox{Id: s.id, Metadata: s.config.Metadata,
			State: s.state, CreatedAt: s.created.UnixNano(), Labels: s.config.Labels,
			Annotations: s.config.Annotations, RuntimeHandler: s.handler})
	}
	slices.SortFunc(res.Items, func(a, b *cri.PodSandbox) int { return int(b.CreatedAt - a.CreatedAt) })
	return res, nil
}

// note appends what the kubelet asked for to the record, as it came.
func (r *runtime) note(s *sandbox, c *container) error {
	if r.record == "" {
		return nil
	}
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	env := []pair{}
	for _, kv := range c.config.Envs {
		env = append(env, pair{kv.Key, string(kv.Value)})
	}
	cdi := []string{}
	for _, d := range c.config.CDIDevices {
		cdi = append(cdi, d.Name)
	}
	line, err := json.Marshal(map[string]any{
		"id": c.id, "namespace": s.config.Metadata.Namespace, "pod": s.config.Metadata.Name,
		"uid": s.config.Metadata.Uid, "container": c.config.Metadata.Name,
		"attempt": c.config.Metadata.Attempt, "image": c.image, "handler": s.handler,
		"command": c.config.Command, "args": c.config.Args, "env": env,
		"mounts": c.config.Mounts, "devices": c.config.Devices, "cdi": cdi,
		"annotations": c.config.Annotations, "resources": c.config.GetLinux().GetResources(),
		"security": c.config.GetLinux().GetSecurityContext(),
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}

func (r *runtime) CreateContainer(_ context.Context, q *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.PodSandboxId]
	if s == nil {
		return nil, notFound("pod sandbox", q.PodSandboxId)
	}
	name, ok := r.images.byRef(q.Config.GetImage().GetImage())
	if !ok {
		return nil, notFound("image", name)
	}
	c := &container{id: newID(), sandbox: s, config: q.Config, image: name, created: time.Now(),
		ended: make(chan struct{})}
	if err := r.note(s, c); err != nil {
		return nil, err
	}
	spec, err := r.makeSpec(c)
	if err != nil {
		return nil, fmt.Errorf("container %s of pod %s: %w", q.Config.Metadata.Name,
			s.config.Metadata.Name, err)
	}
	c.spec = spec
	r.containers[c.id] = c
	return &cri.CreateContainerResponse{ContainerId: c.id}, nil
}

func (r *runtime) find(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		return c, nil
	}
	return nil, notFound("container", id)
}

func (r *runtime) StartContainer(_ context.Context, q *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	c, err := r.find(q.ContainerId)
	if err != nil {
		return nil, err
	}
	return &cri.StartContainerResponse{}, c.start(r)
}

func (r *runtime) StopContainer(_ context.Context, q *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	c, err := r.find(q.ContainerId)
	if err != nil {
		return nil, err
	}
	c.stop(time.Duration(q.Timeout) * time.Second)
	return &cri.StopContainerResponse{}, nil
}

func (r *runtime) remove(c *container) {
	c.stop(0)
	_ = os.RemoveAll(r.scratch(c))
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, c.id)
}

func (r *runtime) RemoveContainer(_ context.Context, q *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	if c, err := r.find(q.ContainerId); err == nil {
		r.remove(c)
	}
	return &cri.RemoveContainerResponse{}, nil
}

func (r *runtime) ListContainers(_ context.Context, q *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	f := q.GetFilter()
	res := &cri.ListContainersResponse{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		st := c.status()
		if f.GetId() != "" && !strings.HasPrefix(c.id, f.Id) ||
			f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox.id ||
			f.GetState() != nil && f.State.State != st.State ||
			!selected(c.config.Labels, f.GetLabelSelector()) {
			continue
		}
		res.Containers = append(res.Containers, &cri.Container{Id: c.id,
			PodSandboxId: c.sandbox.id, Metadata: c.config.Metadata, Image: st.Image,
			ImageRef: st.ImageRef, ImageId: st.ImageId, State: st.State, CreatedAt: st.CreatedAt,
			Labels: c.config.Labels, Annotations: c.config.Annotations})
	}
	slices.SortFunc(res.Containers, func(a, b *cri.Container) int { return int(b.CreatedAt - a.CreatedAt) })
	return res, nil
}

func (r *runtime) ContainerStatus(_ context.Context, q *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	c, err := r.find(q.ContainerId)
	if err != nil {
		return nil, err
	}
	return &cri.ContainerStatusResponse{Status: c.status()}, nil
}

func (r *runtime) ReopenContainerLog(_ context.Context, q *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	c, err := r.find(q.ContainerId)
	if err != nil {
		return nil, err
	}
	return &cri.ReopenContainerLogResponse{}, c.log.open(c.logPath())
}

func (r *runtime) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (r *runtime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

func (r *runtime) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest) (*cri.ListPodSandboxStatsResponse, error) {
	return &cri.ListPodSandboxStatsResponse{}, nil
}
