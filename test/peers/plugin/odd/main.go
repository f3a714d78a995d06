// SPDX-License-Identifier: Apache-2.0

// Command odd is a client of a device plugin that does what the kubelet does not: odd SOCKET PID. It keeps a ListAndWatch
// stream as the kubelet has one, and then sends metadata of many kinds, calls that are cancelled, frames that are
// malformed, floods of frames, connections that say nothing, and messages of 256 MiB. In the end the stream must be as it
// was, a call must be answered, and the process PID must have neither grown by more than its bounds nor kept descriptors.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	service  = "/v1beta1.DevicePlugin/"
	limit    = 30 * time.Second // of one step
	growth   = 48 << 20         // bytes of memory that all steps together may take
	mostOpen = 2                // descriptors that may be more than before: of the witness' library
)

var (
	socket, pid string
	failures    int
)

func fail(format string, args ...any) {
	fmt.Printf("FAIL "+format+"\n", args...)
	failures++
}

// peak is the highest memory that the process has had, in bytes.
func peak() int64 {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		fail("process %s is gone", pid)
		return 0
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kib << 10
}

func descriptors() int {
	names, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	return len(names)
}

// client is a connection of its own.
func client() *grpc.ClientConn {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		fail("%v", err)
		os.Exit(1)
	}
	return conn
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

// expect compares the status of a call with those that are right.
func expect(what string, err error, right ...codes.Code) {
	for _, code := range right {
		if status.Code(err) == code {
			return
		}
	}
	fail("%s: %v, expected one of %v", what, err, right)
}

func oddMetadata() {
	conn := client()
	defer conn.Close()
	plugin := pluginapi.NewDevicePluginClient(conn)
	many := metadata.MD{}
	for i := 0; i < 100; i++ {
		many.Append(fmt.Sprintf("key-%d", i), "value")
	}
	for name, m := range map[string]metadata.MD{
		"binary":       metadata.Pairs("trace-bin", string([]byte{0, 1, 255, 10}), "grpc-trace-bin", "\x00"),
		"the same key": metadata.Pairs("k", "1", "k", "2", "k", "3"),
		"empty":        metadata.Pairs("empty", "", "empty-bin", ""),
		"100 keys":     many,
		"gRPC's own":   metadata.Pairs("grpc-previous-rpc-attempts", "9", "grpc-accept-encoding", "br,zstd"),
		"a token":      metadata.Pairs("authorization", "Bearer "+strings.Repeat("x", 2000)),
	} {
		ctx, cancel := within()
		_, err := plugin.GetDevicePluginOptions(metadata.NewOutgoingContext(ctx, m), &pluginapi.Empty{})
		expect("metadata: "+name, err, codes.OK)
		cancel()
	}
	ctx, cancel := within()
	defer cancel()
	large := metadata.Pairs("large", strings.Repeat("x", 200<<10))
	_, err := plugin.GetDevicePluginOptions(metadata.NewOutgoingContext(ctx, large), &pluginapi.Empty{})
	expect("metadata of 200 KiB", err, codes.ResourceExhausted, codes.Internal, codes.Unavailable, codes.Unknown)
	_, err = plugin.GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.UseCompressor(gzip.Name))
	expect("gzip", err, codes.OK, codes.Unimplemented)
	expect("a method that is not there", conn.Invoke(ctx, service+"Nothing", &pluginapi.Empty{}, &pluginapi.Empty{}), codes.Unimplemented)
	expect("a service that is not there", conn.Invoke(ctx, "/a.B/C", &pluginapi.Empty{}, &pluginapi.Empty{}), codes.Unimplemented)
	expect("a path of 4 KiB", conn.Invoke(ctx, "/"+strings.Repeat("a", 4096)+"/C", &pluginapi.Empty{}, &pluginapi.Empty{}),
		codes.Unimplemented, codes.ResourceExhausted, codes.Internal)
	// A message of another type: its field 1 is no container request.
	err = conn.Invoke(ctx, service+"Allocate", &pluginapi.Device{ID: strings.Repeat("\xff", 10)}, &pluginapi.AllocateResponse{})
	if status.Code(err) == codes.OK || status.Code(err) == codes.DeadlineExceeded {
		fail("a malformed Allocate: %v", err)
	}
}

func cancels() {
	conn := client()
	defer conn.Close()
	plugin := pluginapi.NewDevicePluginClient(conn)
	for i := 0; i < 200; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5)*time.Millisecond)
		if stream, err := plugin.ListAndWatch(ctx, &pluginapi.Empty{}); err == nil && i%2 == 0 {
			_, _ = stream.Recv()
		}
		_, _ = plugin.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
		cancel()
	}
}

// raw opens a connection, writes and closes: at once, or after the plugin has.
func raw(text []byte, wait bool) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fail("%v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	_, _ = conn.Write(text)
	if wait {
		_ = conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}
}

// frames is a beginning of HTTP/2 and what a function adds.
func frames(add func(f *http2.Framer)) []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	_ = f.WriteSettings()
	add(f)
	return b.Bytes()
}

func malformed() {
	repeat := func(n int, one func(f *http2.Framer, i int)) []byte {
		return frames(func(f *http2.Framer) {
			for i := 0; i < n; i++ {
				one(f, i)
			}
		})
	}
	whole := repeat(1, func(f *http2.Framer, _ int) { _ = f.WritePing(false, [8]byte{1}) })
	for _, text := range [][]byte{
		{}, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), bytes.Repeat([]byte{0}, 1000), bytes.Repeat([]byte{0xff}, 100000),
		[]byte(http2.ClientPreface), []byte(http2.ClientPreface[:10]), whole, whole[:len(whole)-3],
		repeat(5000, func(f *http2.Framer, i int) { _ = f.WritePing(i%2 == 0, [8]byte{}) }),
		repeat(5000, func(f *http2.Framer, _ int) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		}),
		repeat(5000, func(f *http2.Framer, i int) { _ = f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel) }),
		repeat(1000, func(f *http2.Framer, i int) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: []byte{0x82}, EndHeaders: true})
			_ = f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		}),
		repeat(200, func(f *http2.Framer, i int) {
			if i == 0 {
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			}
			_ = f.WriteContinuation(1, false, bytes.Repeat([]byte{0x40}, 16000))
		}),
		repeat(1, func(f *http2.Framer, _ int) { _ = f.WriteWindowUpdate(0, 0) }),
		repeat(1, func(f *http2.Framer, _ int) { _ = f.WriteData(0, true, []byte("x")) }),
		repeat(1, func(f *http2.Framer, _ int) { _ = f.WriteRawFrame(0xee, 0xff, 1<<31-1, []byte("x")) }),
	} {
		raw(text, true)
		raw(text, false)
	}
}

// silent holds connections that say nothing, or half of something, while a call is made beside them.
func silent() {
	var held []net.Conn
	for i := 0; i < 20; i++ {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			fail("connection %d: %v", i, err)
			break
		}
		_, _ = conn.Write([]byte(http2.ClientPreface)[:i])
		held = append(held, conn)
	}
	answers("beside connections that say nothing")
	for _, conn := range held {
		_ = conn.Close()
	}
}

func answers(when string) {
	conn := client()
	defer conn.Close()
	ctx, cancel := within()
	defer cancel()
	_, err := pluginapi.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	expect("a call "+when, err, codes.OK)
}

// large sends messages that are refused, also several at a time.
func large(bytes, times int) {
	done := make(chan error, times)
	id := strings.Repeat("x", bytes)
	for i := 0; i < times; i++ {
		go func() {
			conn := client()
			defer conn.Close()
			ctx, cancel := within()
			defer cancel()
			_, err := pluginapi.NewDevicePluginClient(conn).Allocate(ctx, &pluginapi.AllocateRequest{
				ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{id}}}})
			done <- err
		}()
	}
	for i := 0; i < times; i++ {
		expect(fmt.Sprintf("a message of %d MiB", bytes>>20), <-done, codes.ResourceExhausted, codes.Unavailable, codes.Canceled)
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: odd SOCKET PID")
		os.Exit(2)
	}
	socket, pid = os.Args[1], os.Args[2]
	witness := client()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := pluginapi.NewDevicePluginClient(witness).ListAndWatch(ctx, &pluginapi.Empty{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		fail("ListAndWatch: %v", err)
		os.Exit(1)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	open, before := descriptors(), peak()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"metadata", oddMetadata},
		{"cancels", cancels},
		{"malformed", malformed},
		{"silent", silent},
		{"5 MiB", func() { large(5<<20, 1) }},
		{"256 MiB", func() { large(256<<20, 1) }},
		{"256 MiB, twice at a time", func() { large(256<<20, 2) }},
	} {
		step.do()
		answers("after " + step.name)
		fmt.Printf("%s: highest memory +%d KiB\n", step.name, (peak()-before)>>10)
	}
	if grown := peak() - before; grown > growth {
		fail("%d MiB of memory, expected at most %d", grown>>20, int64(growth)>>20)
	}
	select {
	case err := <-ended:
		fail("the kubelet's stream ended: %v", err)
	default:
	}
	for end := time.Now().Add(limit); descriptors() > open+mostOpen; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			fail("%d descriptors, %d before", descriptors(), open)
			break
		}
	}
	if failures > 0 {
		os.Exit(1)
	}
}
