/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CDI specifications: what a container runtime adds to a container that is given a GPU
 * (docs/cdi.md has the reasons).
 *
 *	cdi_search()    looks for driver files and device nodes: facts of this host
 *	cdi_spec_new()  from facts and config to the text of one specification: pure
 *
 * A device is a name and a list of nodes: a GPU has one, and a MIG device its GPU's and the two
 * capabilities of its instances. All paths of the facts are those of a container; where a file lies on the host is
 * the driver root or the device root before it.
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
#define CDI_LIBRARIES_MAX  512        /* of one driver; 580 has about 50 */
#define CDI_NODES_MAX      1024       /* of one device */
#define CDI_SPEC_MAX_BYTES (8U << 20) /* of a file that we read back or list */
#define CDI_NAME_MAX       128        /* of a class, a vendor, a device */
#define CDI_FILE_NAME_MAX  (CDI_NAME_MAX + 64)

struct cdi_node {
	char *path;   /* "/dev/nvidia0" */
	uint32_t gid; /* the group that may use it, where others may not; 0: all may */
};

enum cdi_file_kind {
	CDI_FILE,   /* mounted read-only */
	CDI_SOCKET, /* or a directory of sockets: mounted as it is, nothing is run from it */
};

struct cdi_file {
	enum cdi_file_kind kind;
	char *path; /* in the container */
	char *real; /* below the driver root, links followed */
};

/* What is done to a container for one device, or for every device of a class. */
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
	char *dir;         /* where it was found below the driver root: "/usr/lib64/vdpau" */
	char *sub;         /* the part of it below a library directory: "vdpau" or "" */
	char *name;        /* "libcuda.so.580.159.04" */
	char *real;        /* below the driver root, links followed */
	bool soname_first; /* names.v[0] is the SONAME */
	struct strv names; /* what else programs call it: SONAME, "libcuda.so" */
};

struct cdi_found {
	char driver_version[80];
	char *driver_root; /* on the host; what stands before .real */
	struct cdi_library *libraries;
	size_t n_libraries;
	struct cdi_edits common; /* of class gpu, besides the libraries */
	struct cdi_device *devices[CDI_CLASSES];
	size_t n_devices[CDI_CLASSES];
	/* Files and directories, as they are seen from here and whether they are there or not, by
	 * which it shows when another search would find something else. */
	struct strv watched;
};

/*
 * Looks at the host as far as it can be seen from here: below the container driver root, below the
 * driver root, or at "/", whichever has the libcuda of the driver's version. ERR_NOT_FOUND if none
 * has: without it there is nothing to give to a container. GPUs and MIG devices without a minor
 * number or a good name are left out; a GPU in MIG mode is there as its MIG devices. @sysfs_root NULL: "/sys". Blocks as files do.
 */
int cdi_search(struct cdi_found **ret, const struct config *config, const struct inventory *inv,
	const char *sysfs_root, struct error *err) MUST_USE;
struct cdi_found *cdi_found_free(struct cdi_found *f); /* returns NULL */
DEFINE_CLEANUP(struct cdi_found *, cdi_found_free)

/*
 * The specification of @class as JSON, with the lowest cdiVersion that its contents allow. Without
 * an explicit hook path in @config it has no hooks: libraries are mounted under all their names
 * into the directories that a loader looks in by itself. Returns CDI_E_EMPTY, and no text, if the
 * class has no device. *ret is yours: free().
 */
#define CDI_E_EMPTY 1
int cdi_spec_new(char **ret, enum cdi_class class_, const struct cdi_found *found,
	const struct config *config, struct error *err) MUST_USE;

const char *cdi_class_name(enum cdi_class class_); /* "imex-channel"; static */
bool cdi_class_find(const char *name, enum cdi_class *ret);

/* "k8s.device-plugin.nvidia.com-gpu.json" into @ret of CDI_FILE_NAME_MAX bytes. */
void cdi_file_name(char *ret, enum cdi_class class_);

/* The names that CDI allows: letters, digits and "_-.:" between letters or digits. */
bool cdi_device_name_valid(const char *name);
