// SPDX-License-Identifier: Apache-2.0
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Descriptors that the parent hands over: the payload, and where to report a failure. The second
// closes by itself when the program is replaced.
const (
	payloadFd = 3
	reportFd  = 4
)

// initMain is the first life of a container's process.
func initMain() {
	// Capabilities and the signal of the parent's death belong to a thread.
	goruntime.LockOSThread()
	unix.CloseOnExec(reportFd)
	report := os.NewFile(reportFd, "report")
	var p payload
	in := os.NewFile(payloadFd, "payload")
	err := json.NewDecoder(in).Decode(&p)
	_ = in.Close()
	if err == nil {
		err = become(&p)
	}
	fmt.Fprintln(report, err)
	os.Exit(128)
}

// heldMount is a mount of the node, taken before the root changes and put into its place after.
type heldMount struct {
	fd     int
	isDir  bool
	target string
	ro     bool
}

func hold(m oci.Mount) (heldMount, error) {
	var st unix.Stat_t
	if err := unix.Stat(m.Source, &st); err != nil {
		return heldMount{}, fmt.Errorf("mount %s: %w", m.Source, err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return heldMount{}, fmt.Errorf("open_tree %s: %w", m.Source, err)
	}
	return heldMount{fd: fd, isDir: st.Mode&unix.S_IFMT == unix.S_IFDIR, target: m.Destination,
		ro: slices.Contains(m.Options, "ro")}, nil
}

// place makes the mount point and attaches the mount.
func (h heldMount) place() error {
	var err error
	if h.isDir {
		err = os.MkdirAll(h.target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(h.target), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(h.target, os.O_CREATE|unix.O_NONBLOCK, 0o644); err == nil {
			_ = f.Close()
		} else if _, e := os.Lstat(h.target); e == nil {
			err = nil // a device that cannot be opened is a mount point as well
		}
	}
	if err != nil {
		return fmt.Errorf("mount point %s: %w", h.target, err)
	}
	if err := unix.MoveMount(h.fd, "", unix.AT_FDCWD, h.target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount on %s: %w", h.target, err)
	}
	_ = unix.Close(h.fd)
	if h.ro {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, h.target, unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("read-only mount on %s: %w", h.target, err)
		}
	}
	return nil
}

// mountRoot makes the overlay, and moves into it.
func mountRoot(p *payload) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	dirs := map[string]string{}
	for _, name := range []string{"upper", "work", "root"} {
		dirs[name] = filepath.Join(p.Scratch, name)
		if err := os.MkdirAll(dirs[name], 0o755); err != nil {
			return err
		}
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(p.Layers, ":"),
		dirs["upper"], dirs["work"])
	if err := unix.Mount("overlay", dirs["root"], "overlay", 0, data); err != nil {
		return fmt.Errorf("mount overlay of %s: %w", data, err)
	}
	return os.Chdir(dirs["root"])
}

// mountKernel gives the container /proc, /sys and a /dev with what every program expects.
func mountKernel(privileged bool) error {
	type fs struct {
		kind, at string
		flags    uintptr
		data     string
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	list := []fs{{"proc", "proc", safe, ""}, {"tmpfs", "dev", unix.MS_NOSUID, "mode=755"},
		{"devpts", "dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
		{"tmpfs", "dev/shm", safe, "mode=1777"}, {"tmpfs", "run", unix.MS_NOSUID, "mode=755"}}
	for _, f := range list {
		if err := os.MkdirAll(f.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(f.kind, f.at, f.kind, f.flags, f.data); err != nil {
			return fmt.Errorf("mount %s: %w", f.at, err)
		}
	}
	for name, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, "dev/"+name); err != nil {
			return err
		}
	}
	for i, name := range []string{3: "null", 5: "zero", 7: "full", 8: "random", 9: "urandom"} {
		if name != "" {
			if err := makeNode("dev/"+name, unix.S_IFCHR, 1, uint32(i), 0o666); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount("/sys", "sys", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount sys: %w", err)
	}
	if privileged {
		return nil
	}
	return unix.MountSetattr(unix.AT_FDCWD, "sys", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func makeNode(path string, kind, major, minor uint32, mode os.FileMode) error {
	_ = os.Remove(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(path, kind|uint32(mode), int(unix.Mkdev(major, minor))); err != nil {
		return fmt.Errorf("device node %s: %w", path, err)
	}
	return os.Chmod(path, mode)
}

func makeDevices(devices []oci.LinuxDevice) error {
	for _, d := range devices {
		kind, mode := uint32(unix.S_IFCHR), os.FileMode(0o666)
		if d.Type == "b" {
			kind = unix.S_IFBLK
		}
		if d.FileMode != nil && *d.FileMode&0o777 != 0 {
			mode = *d.FileMode & 0o777
		}
		if err := makeNode(d.Path, kind, uint32(d.Major), uint32(d.Minor), mode); err != nil {
			return err
		}
	}
	return nil
}

// limit gives up what the container may not do, and becomes its user.
func limit(p *oci.Process) error {
	for i, name := range capabilities {
		if !slices.Contains(p.Capabilities.Bounding, name) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(i), 0, 0, 0); err != nil && err != unix.EINVAL {
				return fmt.Errorf("drop %s: %w", name, err)
			}
		}
	}
	groups := []int{}
	for _, g := range p.User.AdditionalGids {
		groups = append(groups, int(g))
	}
	if err := unix.Setgroups(groups); err != nil {
		return err
	}
	if err := unix.Setresgid(int(p.User.GID), int(p.User.GID), int(p.User.GID)); err != nil {
		return err
	}
	if err := unix.Setresuid(int(p.User.UID), int(p.User.UID), int(p.User.UID)); err != nil {
		return err
	}
	if p.NoNewPrivileges {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return nil
}

// become makes the container around this process and runs its program; it returns only on failure.
func become(p *payload) error {
	if err := mountRoot(p); err != nil {
		return err
	}
	privileged := len(p.Spec.Process.Capabilities.Bounding) == len(capabilities)
	if err := mountKernel(privileged); err != nil {
		return err
	}
	var held []heldMount
	for _, m := range p.Spec.Mounts {
		h, err := hold(m)
		if err != nil {
			return err
		}
		held = append(held, h)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, h := range held {
		if err := h.place(); err != nil {
			return err
		}
	}
	if err := makeDevices(p.Spec.Linux.Devices); err != nil {
		return err
	}
	if name := p.Spec.Hostname; name != "" {
		if err := unix.Sethostname([]byte(name)); err != nil {
			return err
		}
	}
	if p.Spec.Root.Readonly {
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("read-only root: %w", err)
		}
	}
	proc := p.Spec.Process
	if err := os.MkdirAll(proc.Cwd, 0o755); err != nil && !p.Spec.Root.Readonly {
		return err
	}
	if err := os.Chdir(proc.Cwd); err != nil {
		return err
	}
	_ = os.Setenv("PATH", lookup(proc.Env, "PATH"))
	file, err := exec.LookPath(proc.Args[0])
	if err != nil {
		return err
	}
	if err := limit(proc); err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", file, unix.Exec(file, proc.Args, proc.Env))
}
