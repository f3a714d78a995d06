/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CDI specifications: what a container runtime adds to a container that gets a GPU (docs/cdi.md has
 * the reasons).
 *
 *	cdi_search()    finds driver files and device nodes: facts of this host
 *	cdi_spec_new()  makes the text of one specification from facts and config: pure
 *
 * A device is a name and a list of nodes. A GPU has its own node and its DRM nodes. A MIG device has
 * the node of its GPU and the two capabilities of its instances, and with graphics the DRM nodes.
 *
 * Paths. Paths of nodes and files are those in the container. On the host a node is below the device
 * root. The host's file of a driver file or a library is .real below the driver root.
 * Thread: any.
 */
#include "model/config/config.h"
#include "model/gpu/gpu.h"

enum cdi_class {
	CDI_GPU,
	CDI_IMEX_CHANNEL,
	CDI_GDRCOPY,
	CDI_GDS,
	CDI_MOFED,
	CDI_CLASSES,
};

#define CDI_DIR            "/var/run/cdi"
#define CDI_LIBRARIES_MAX  512        /* limit for one driver; driver 580 has about 50 */
#define CDI_NODES_MAX      1024       /* limit for one device */
#define CDI_SPEC_MAX_BYTES (8U << 20) /* limit of a file to read back or list, bytes */
#define CDI_NAME_MAX       128        /* limit of the name of a class, a vendor, a device */
#define CDI_FILE_NAME_MAX  (CDI_NAME_MAX + 64)

struct cdi_node {
	char *path;   /* "/dev/nvidia0" */
	uint32_t gid; /* group with access, if others have none; 0: all have access */
};

enum cdi_file_kind {
	CDI_FILE,   /* mounted read-only */
	CDI_SOCKET, /* a socket or a directory of sockets: mounted writable, noexec */
};

struct cdi_file {
	enum cdi_file_kind kind;
	char *path; /* in the container */
	char *real; /* below the driver root, without symlinks */
};

/* The changes of a container for one device, or for every device of a class. */
struct cdi_edits {
	struct cdi_node *nodes;
	size_t n_nodes;
	struct cdi_file *files;
	size_t n_files;
	struct strv links; /* "TARGET::LINK": symlinks that only a hook can make */
};

struct cdi_device {
	char name[CDI_NAME_MAX];
	struct cdi_edits edits;
};

struct cdi_library {
	char *dir;  /* directory of the library below the driver root: "/usr/lib64/vdpau" */
	char *sub;  /* the part of .dir below a library directory: "vdpau" or "" */
	char *name; /* "libcuda.so.580.159.04" */
	char *real; /* below the driver root, without symlinks */
	bool soname_first; /* names.v[0] is the SONAME */
	struct strv names; /* other names that programs use: SONAME, "libcuda.so" */
};

struct cdi_found {
	char driver_version[80];
	char *driver_root; /* on the host; the prefix of .real */
	struct cdi_library *libraries;
	size_t n_libraries;
	struct cdi_edits common; /* of class gpu, without the libraries */
	struct cdi_device *devices[CDI_CLASSES];
	size_t n_devices[CDI_CLASSES];
	/* Paths in this process's view of the files and directories that the result depends on,
	 * present or not. A change of one means that another search may find something else. */
	struct strv watched;
};

/*
 * Searches the host as this process sees it. The root is the first of the container driver root, the
 * driver root and "/" that has the libcuda of the driver's version. ERR_NOT_FOUND: none has; without
 * libcuda there is nothing to give to a container. Leaves out GPUs and MIG devices without a minor
 * number or a valid name. A GPU in MIG mode is present as its MIG devices. @sysfs_root NULL: "/sys".
 * Blocks on files.
 */
int cdi_search(struct cdi_found **ret, const struct config *config, const struct inventory *inv,
	const char *sysfs_root, struct error *err) MUST_USE;
struct cdi_found *cdi_found_free(struct cdi_found *f); /* returns NULL */
DEFINE_CLEANUP(struct cdi_found *, cdi_found_free)

/*
 * The specification of @class as JSON, with the lowest cdiVersion that its contents allow. Without an
 * explicit hook path in @config the specification has no hooks. Then, or if @config disables the hooks
 * for symlinks or the loader's cache, libraries are mounted under all their names. Their directories
 * are those that a loader searches by default. Returns CDI_E_EMPTY and no text if the class has no
 * device. *ret is the caller's: free().
 */
#define CDI_E_EMPTY 1
int cdi_spec_new(char **ret, enum cdi_class class_, const struct cdi_found *found,
	const struct config *config, struct error *err) MUST_USE;

const char *cdi_class_name(enum cdi_class class_); /* "imex-channel"; static */
/* The class of that name. False: none, and *ret is unchanged. */
bool cdi_class_find(const char *name, enum cdi_class *ret);

/* Writes "k8s.device-plugin.nvidia.com-gpu.json" to @ret of CDI_FILE_NAME_MAX bytes. */
void cdi_file_name(char *ret, enum cdi_class class_);

/* The names that CDI allows: letters, digits and "_-.:" between letters or digits. */
bool cdi_device_name_valid(const char *name);
