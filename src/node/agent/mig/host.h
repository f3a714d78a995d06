/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the MIG manager does on the host, below the host root's mount. It stops the systemd services that use
 * GPUs and starts them again. It keeps the selected layout where NVIDIA's boot service reads it. It reboots the
 * host. A file of the run directory lists the stopped services, so that a restarted agent starts them.
 * Thread: loop.
 */
#include "lib/proc/child.h"
#include "lib/base/buf.h"
#include "lib/base/strv.h"

#define MIG_SERVICES_FILE (64 * 1024) /* bytes of the file of stopped services */

struct mig_host {
	uv_loop_t *loop;
	const char *root;     /* borrowed: "/host" */
	char *stopped_path;   /* the file of stopped services */
	struct strv services; /* to stop */
	struct strv stopped;  /* in the order of the stops */
	size_t next;
	enum {
		MIG_HOST_REST,
		MIG_HOST_ASK,
		MIG_HOST_STOP,
		MIG_HOST_START,
		MIG_HOST_COMMAND
	} step;
	const char *what; /* the command, for messages */
	struct child *child;
	struct error first; /* of the services that did not start */
	void (*done)(void *arg, const struct error *err); /* @err: ERR_NONE or the reason */
	void *arg;
};

int mig_host_init(struct mig_host *h, uv_loop_t *loop, const char *root, const char *run_dir,
	struct error *err) MUST_USE;
void mig_host_fini(struct mig_host *h); /* after the loop has run */
void mig_host_cancel(struct mig_host *h);

/* Each of these calls .done once at its end, possibly before it returns. One at a time. */

/* Stops the active services of .services. */
void mig_host_stop(struct mig_host *h);
/*
 * Starts the services of .stopped, the last first. A service that does not start stays in .stopped, and the
 * others start.
 */
void mig_host_start(struct mig_host *h);
/* systemctl daemon-reload. */
void mig_host_reload(struct mig_host *h);
/* @command: words, split at blanks. */
void mig_host_reboot(struct mig_host *h, const char *command);

/* If @file exists below the host root, makes it name the layout. 1: it does already, or does not exist. */
int mig_host_select(const struct mig_host *h, const char *file, const char *name,
	struct error *err) MUST_USE;
