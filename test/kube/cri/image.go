// SPDX-License-Identifier: Apache-2.0
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// image is one row of the table: what stands in for the images whose names match.
type image struct {
	pattern    string
	layers     []string // directories, uppermost first
	entrypoint []string
}

// imageService knows images by name only; "pulling" notes that a name has been asked for.
type imageService struct {
	cri.UnimplementedImageServiceServer
	table []image
	deny  string
	root  string
	mu    sync.Mutex
	local map[string]bool
}

// match compares with a pattern in which '*' stands for any text, slashes as well.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	if !star {
		return name == ""
	}
	for i := 0; i <= len(name); i++ {
		if match(rest, name[i:]) {
			return true
		}
	}
	return false
}

// lines are the fields of each line that is not empty and not a comment.
func lines(file string) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			rows = append(rows, f)
		}
	}
	return rows, nil
}

func loadImages(o options) (*imageService, error) {
	s := &imageService{deny: o.deny, root: o.root, local: map[string]bool{}}
	if o.images == "" {
		return s, nil
	}
	rows, err := lines(o.images)
	if err != nil {
		return nil, err
	}
	for _, f := range rows {
		if len(f) < 2 {
			return nil, fmt.Errorf("%s: %q has no layer", o.images, f[0])
		}
		row := image{pattern: f[0], entrypoint: f[2:]}
		for _, layer := range strings.Split(f[1], ",") {
			if layer != "-" {
				row.layers = append(row.layers, filepath.Join(o.layers, layer))
			}
		}
		s.table = append(s.table, row)
	}
	return s, nil
}

// find gives the row of a name; an empty one for images that the table does not have.
func (s *imageService) find(name string) image {
	for _, row := range s.table {
		if match(row.pattern, name) {
			return row
		}
	}
	return image{}
}

// denied looks the file up each time, so that a test can change its mind.
func (s *imageService) denied(name string) bool {
	if s.deny == "" {
		return false
	}
	rows, _ := lines(s.deny)
	for _, f := range rows {
		if match(f[0], name) {
			return true
		}
	}
	return false
}

func imageID(name string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
}

func describe(name string) *cri.Image {
	return &cri.Image{
		Id: imageID(name), RepoTags: []string{name}, Size: 1 << 20,
		Spec: &cri.ImageSpec{Image: name}, Uid: &cri.Int64Value{Value: 0},
	}
}

// byRef resolves a name, or the id that PullImage gave for it.
func (s *imageService) byRef(ref string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.local {
		if ref == name || ref == imageID(name) {
			return name, true
		}
	}
	return ref, false
}

func (s *imageService) ImageStatus(_ context.Context, r *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	if name, ok := s.byRef(r.GetImage().GetImage()); ok && !s.denied(name) {
		return &cri.ImageStatusResponse{Image: describe(name)}, nil
	}
	return &cri.ImageStatusResponse{}, nil
}

func (s *imageService) PullImage(_ context.Context, r *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	if s.denied(name) {
		return nil, status.Errorf(codes.NotFound, "failed to pull image %q: not found", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local[name] = true
	return &cri.PullImageResponse{ImageRef: imageID(name)}, nil
}

func (s *imageService) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &cri.ListImagesResponse{}
	for name := range s.local {
		res.Images = append(res.Images, describe(name))
	}
	sort.Slice(res.Images, func(i, j int) bool { return res.Images[i].Id < res.Images[j].Id })
	return res, nil
}

func (s *imageService) RemoveImage(_ context.Context, r *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	name, _ := s.byRef(r.GetImage().GetImage())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.local, name)
	return &cri.RemoveImageResponse{}, nil
}

// ImageFsInfo names a directory of a disk: the kubelet does not find the figures of an overlay.
func (s *imageService) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	fs := []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: s.root},
		UsedBytes: &cri.UInt64Value{Value: 0}, InodesUsed: &cri.UInt64Value{Value: 0},
	}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs}, nil
}
