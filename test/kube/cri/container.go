// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one process, or the memory of it.
type container struct {
	id      string
	sandbox *sandbox
	config  *cri.ContainerConfig
	image   string
	spec    *oci.Spec
	created time.Time
	log     logFile
	ended   chan struct{} // closed when the process has been reaped

	mu                sync.Mutex
	pid               int // in the node's namespace; 0 before the start
	started, finished time.Time
	code              int32
}

// payload tells the new process, which is this program again, what to become.
type payload struct {
	Spec    *oci.Spec
	Layers  []string // directories of the root file system, uppermost first
	Scratch string   // what the container writes goes below it
}

func (r *runtime) scratch(c *container) string { return filepath.Join(r.state, c.id) }

func (c *container) logPath() string {
	if c.config.LogPath == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.LogDirectory, c.config.LogPath)
}

// logFile takes lines in the form that the kubelet reads.
type logFile struct {
	mu   sync.Mutex
	file *os.File
}

func (l *logFile) open(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = f
	return nil
}

func (l *logFile) copy(stream string, from io.ReadCloser, done *sync.WaitGroup) {
	defer done.Done()
	defer from.Close()
	in := bufio.NewReaderSize(from, 16384)
	for {
		line, err := in.ReadSlice('\n')
		tag := "P" // part of a line
		if bytes.HasSuffix(line, []byte("\n")) {
			tag, line = "F", line[:len(line)-1]
		}
		if len(line) > 0 || tag == "F" {
			l.mu.Lock()
			if l.file != nil {
				fmt.Fprintf(l.file, "%s %s %s %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, line)
			}
			l.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// ownPids is false for a container that shares the node's PIDs.
func (c *container) ownPids() bool {
	return c.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() != cri.NamespaceMode_NODE
}

// killAll ends who is left of a container whose first process has ended: without PIDs of its own the kernel
// does not. Real runtimes know them by their control group, this one by the mounts that they have.
func killAll(mounts string) {
	for found := true; found; {
		found = false
		list, _ := filepath.Glob("/proc/[0-9]*/ns/mnt")
		for _, path := range list {
			if is, _ := os.Readlink(path); is != mounts {
				continue
			}
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
		}
		if found {
			time.Sleep(time.Millisecond)
		}
	}
}

// command is the process in namespaces of its own, as far as the pod asks for them.
func (c *container) command(in *os.File, report, stdout, stderr *os.File) *exec.Cmd {
	flags := syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	if c.ownPids() {
		flags |= syscall.CLONE_NEWPID
	}
	return &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"cri", "init"}, Dir: "/",
		ExtraFiles: []*os.File{in, report}, Stdout: stdout, Stderr: stderr,
		// Nobody would look after it when this program is gone.
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: uintptr(flags), Setsid: true,
			Pdeathsig: syscall.SIGKILL},
	}
}

// start runs the process and returns when it is the container's own program, or why it is not.
func (c *container) start(r *runtime) error {
	img := r.images.find(c.image)
	if err := c.log.open(c.logPath()); err != nil {
		return err
	}
	text, err := json.Marshal(payload{Spec: c.spec, Layers: append(img.layers, r.root),
		Scratch: r.scratch(c)})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go c.run(text, failed)
	return <-failed
}

// run lives as long as the process and stays on one thread: the kernel sends the signal of a
// parent's death when the thread ends that made the child.
func (c *container) run(text []byte, failed chan<- error) {
	goruntime.LockOSThread()
	var files [8]*os.File
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			failed <- err
			return
		}
		files[i], files[i+1] = r, w
	}
	inR, inW, repR, repW := files[0], files[1], files[2], files[3]
	cmd := c.command(inR, repW, files[5], files[7])
	err := cmd.Start()
	for _, f := range []*os.File{inR, repW, files[5], files[7]} {
		_ = f.Close()
	}
	var copies sync.WaitGroup
	copies.Add(2)
	go c.log.copy("stdout", files[4], &copies)
	go c.log.copy("stderr", files[6], &copies)
	if err != nil {
		_ = inW.Close()
		_ = repR.Close()
		c.end(cmd, 128)
		failed <- err
		return
	}
	c.mu.Lock()
	c.pid, c.started = cmd.Process.Pid, time.Now()
	c.mu.Unlock()
	_, _ = inW.Write(text)
	_ = inW.Close()
	report, _ := io.ReadAll(repR) // ends when the program is replaced, or fails
	_ = repR.Close()
	if len(report) > 0 {
		_ = cmd.Wait()
		c.end(cmd, 128)
		failed <- errors.New(strings.TrimSpace(string(report)))
		return
	}
	mounts, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid))
	failed <- nil
	_ = cmd.Wait()
	if !c.ownPids() && mounts != "" {
		killAll(mounts)
	}
	copies.Wait()
	code := cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	c.end(cmd, int32(code))
}

func (c *container) end(_ *exec.Cmd, code int32) {
	c.mu.Lock()
	c.finished, c.code = time.Now(), code
	if c.started.IsZero() {
		c.started = c.finished
	}
	c.mu.Unlock()
	close(c.ended)
}

// stop asks first, and kills after the time of grace.
func (c *container) stop(grace time.Duration) {
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if pid == 0 {
		return
	}
	if grace > 0 && c.signal(pid, syscall.SIGTERM) {
		select {
		case <-c.ended:
			return
		case <-time.After(grace):
		}
	}
	if c.signal(pid, syscall.SIGKILL) {
		<-c.ended
	}
}

// signal is false when the process has ended already.
func (c *container) signal(pid int, sig syscall.Signal) bool {
	select {
	case <-c.ended:
		return false
	default:
		return syscall.Kill(pid, sig) == nil
	}
}

func (c *container) status() *cri.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &cri.ContainerStatus{Id: c.id, Metadata: c.config.Metadata, CreatedAt: c.created.UnixNano(),
		Image: &cri.ImageSpec{Image: c.image}, ImageRef: imageID(c.image), ImageId: imageID(c.image),
		Labels: c.config.Labels, Annotations: c.config.Annotations, Mounts: c.config.Mounts,
		LogPath: c.logPath(), State: cri.ContainerState_CONTAINER_CREATED}
	switch {
	case !c.finished.IsZero():
		st.State = cri.ContainerState_CONTAINER_EXITED
		st.StartedAt, st.FinishedAt = c.started.UnixNano(), c.finished.UnixNano()
		st.ExitCode, st.Reason = c.code, "Completed"
		if c.code != 0 {
			st.Reason = "Error"
		}
	case c.pid != 0:
		st.State, st.StartedAt = cri.ContainerState_CONTAINER_RUNNING, c.started.UnixNano()
	}
	return st
}
