/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the MIG manager does on the host, below the host root's mount: stops the systemd services
 * that use GPUs and starts them again, keeps the selected layout where NVIDIA's boot service looks
 * for it, reboots. Which services were stopped stands in a file of the run directory, so that an
 * agent that starts again starts them.
 * Thread: loop.
 */
#include "lib/proc/child.h"
#include "lib/base/buf.h"
#include "lib/base/strv.h"

#define MIG_SERVICES_FILE (64 * 1024) /* bytes of the file that says which were stopped */

struct mig_host {
	uv_loop_t *loop;
	const char *root;     /* borrowed: "/host" */
	char *stopped_path;   /* file that says which were stopped */
	struct strv services; /* that are to be stopped */
	struct strv stopped;  /* in the order they were */
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
	struct error first; /* of the services that could not be started */
	void (*done)(void *arg, const struct error *err); /* @err: ERR_NONE or why not */
	void *arg;
};

int mig_host_init(struct mig_host *h, uv_loop_t *loop, const char *root, const char *run_dir,
	struct error *err) MUST_USE;
void mig_host_fini(struct mig_host *h); /* after the loop has run */
void mig_host_cancel(struct mig_host *h);

/* Each of these ends with one call of .done, perhaps before it returns. One at a time. */

/* Stops those of .services that are active. */
void mig_host_stop(struct mig_host *h);
/* Starts those of .stopped, the last first; goes on with the others where one does not
 * start, which then stays in it. */
void mig_host_start(struct mig_host *h);
/* systemctl daemon-reload. */
void mig_host_reload(struct mig_host *h);
/* @command: words, split at blanks. */
void mig_host_reboot(struct mig_host *h, const char *command);

/* If the file is there below the host root, it names the layout afterwards. 1: it does already, or
 * there is none. */
int mig_host_select(const struct mig_host *h, const char *file, const char *name,
	struct error *err) MUST_USE;
