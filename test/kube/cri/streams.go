// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os/exec"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// streams is the HTTP server to which the kubelet passes `kubectl exec` on.
type streams struct{ server streaming.Server }

func (r *runtime) serveStreams() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config := streaming.DefaultConfig
	config.Addr = lis.Addr().String()
	_ = lis.Close()
	r.streams.server, err = streaming.NewServer(config, execer{r})
	if err != nil {
		return err
	}
	go func() { log.Print(r.streams.server.Start(true)) }()
	return nil
}

// inside is a command in the namespaces of a running container, with its environment, as root.
func (r *runtime) inside(ctx context.Context, id string, args []string) (*exec.Cmd, error) {
	c, err := r.find(id)
	if err != nil {
		return nil, err
	}
	if st := c.status(); st.State != cri.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is not running", id)
	}
	pid := strconv.Itoa(c.pid)
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", pid, "-m", "-u", "-i", "-p",
		"-r", "-w", "--"}, args...)...)
	cmd.Env = c.spec.Process.Env
	cmd.WaitDelay = time.Second // for what the command has left in the background
	return cmd, nil
}

func exitCode(err error) (int32, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return int32(exit.ExitCode()), nil
	}
	return 0, err
}

func (r *runtime) ExecSync(ctx context.Context, q *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	if q.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(q.Timeout)*time.Second)
		defer cancel()
	}
	cmd, err := r.inside(ctx, q.ContainerId, q.Cmd)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	code, err := exitCode(cmd.Run())
	if ctx.Err() != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "command timed out after %d s", q.Timeout)
	}
	return &cri.ExecSyncResponse{Stdout: out.Bytes(), Stderr: errs.Bytes(), ExitCode: code}, err
}

func (r *runtime) Exec(_ context.Context, q *cri.ExecRequest) (*cri.ExecResponse, error) {
	if _, err := r.inside(context.Background(), q.ContainerId, q.Cmd); err != nil {
		return nil, err
	}
	return r.streams.server.GetExec(q)
}

type execer struct{ r *runtime }

// exitError is how the streaming library learns of an exit status.
type exitError struct{ code int }

func (e exitError) Error() string   { return fmt.Sprintf("exit status %d", e.code) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return e.code }

func (x execer) Exec(ctx context.Context, id string, args []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	cmd, err := x.r.inside(ctx, id, args)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	code, err := exitCode(cmd.Run())
	if err == nil && code != 0 {
		return exitError{int(code)}
	}
	return err
}

func (execer) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errors.New("attach is not there")
}

func (execer) PortForward(context.Context, string, int32, io.ReadWriteCloser) error {
	return errors.New("port-forward is not there")
}
