/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "lib/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Applies an inventory, or the error of a probe. */

static void apply_gpu_probe(struct agent *a, const struct inventory *inv,
	const struct error *why)
{
	struct error err = ERROR_INIT;
	int r = node_observe(&a->facts.node, &a->facts.config->health, inv, why, time_mono_ns(),
		&err);

	if (r < 0) {
		log_error("GPUs not updated", LOG_STR("reason", err.msg));
		return;
	}
	if (r > 0)
		agent_config_gpus_changed(&a->config);
	if (r > 0 || !a->facts.offered.offer) {
		wake_up(&a->wake);
	} else {
		agent_cdi_sync(&a->cdi);
		if (agent_kubelet_try(&a->kubelet))
			wake_up(&a->wake);
		agent_set_due(a);
	}
}

static void log_unsettled(const struct inventory *inv)
{
	for (uint32_t i = 0; i < inv->n; i++)
		if (inv->gpus[i].mig_unsettled)
			log_warn("MIG devices change each time that they are read, "
				 "those known before stay",
				LOG_UINT("gpu", inv->gpus[i].index),
				LOG_STR("uuid", inv->gpus[i].uuid));
}

static void on_gpu_inventory(void *arg, const struct inventory *inv)
{
	CLEANUP(inventory_freep) struct inventory *held = NULL;
	const struct inventory *now;
	struct agent *a = arg;

	if (!a->facts.nvml_answered || a->facts.nvml_down.code != ERR_NONE)
		log_info("NVML answers", LOG_UINT("gpus", inv->n),
			LOG_STR("driver", inv->driver_version));
	a->facts.nvml_answered = true;
	error_clear(&a->facts.nvml_down);
	a->facts.node.driver_mismatch = false;
	log_unsettled(inv);
	now = mig_hide_changes(&a->mig, inv, &held);
	if (now)
		apply_gpu_probe(a, now, NULL);
	mig_on_probed(&a->mig);
}

static void on_nvml_down(void *arg, const struct error *why)
{
	struct agent *a = arg;
	struct error err = *why;

	if (!a->facts.nvml_answered && a->facts.config->fail_on_init_error_set &&
		a->facts.config->fail_on_init_error) {
		(void)error_prefix(&err, "nvml init failed");
		failure_set(&a->failure, &err);
		return;
	}
	if (strcmp(a->facts.nvml_down.msg, why->msg) != 0)
		log_warn("NVML cannot be used, trying again", LOG_STR("reason", why->msg));
	a->facts.nvml_down = *why;
	a->facts.node.driver_mismatch = gpu_monitor_mismatch(a->gpus.monitor);
	apply_gpu_probe(a, NULL, why);
	mig_sync(&a->mig);
}

static void on_gpu_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	struct agent *a = arg;
	const struct health_policy *policy = &a->facts.config->health;
	const char *action = "ignored";
	bool whole = gi == NODE_XID_ALL && ci == NODE_XID_ALL;
	char instance[32] = "";

	if (!*uuid)
		action = "looking at all GPUs"; /* the monitor does so */
	else if (health_policy_acts(policy, xid))
		action = whole ? "GPU unhealthy" : "MIG device unhealthy";
	else if (health_policy_verdict(policy, xid) == XID_COUNTED)
		action = "counted by health.xidRules";
	if (!whole)
		(void)snprintf(instance, sizeof(instance), "%" PRId64 "/%" PRId64,
			gi == NODE_XID_ALL ? -1 : (int64_t)gi,
			ci == NODE_XID_ALL ? -1 : (int64_t)ci);
	monitoring_add_xid(&a->monitoring, uuid, xid);
	log_warn("XID reported", LOG_STR("uuid", *uuid ? uuid : "unknown"),
		LOG_STR("instance", instance), LOG_UINT("xid", xid),
		LOG_STR("what", xid_text(xid)), LOG_STR("action", action));
	if (node_xid(&a->facts.node, policy, uuid, gi, ci, xid, time_mono_ns()))
		wake_up(&a->wake);
	health_saver_save(&a->health_saver); /* no reconcile saves an XID that only counts */
}

static const struct gpu_monitor_ops monitor_ops = {
	.inventory = on_gpu_inventory,
	.down = on_nvml_down,
	.xid = on_gpu_xid,
};

int agent_gpus_start(struct agent *a, struct error *err)
{
	const struct gpu_monitor_options options = {
		.nvml_path = a->gpus.nvml_path,
		.driver_root = a->facts.config->container_driver_root,
		.sysfs_root = a->gpus.sysfs_root,
		.procfs_root = a->gpus.procfs_root,
	};

	if (gpu_monitor_start(&a->gpus.monitor, a->loop, &options, &monitor_ops, a, err) < 0)
		return -1;
	gpu_monitor_set_interval(a->gpus.monitor, a->facts.config->health.probe_interval_ns);
	return 0;
}

void agent_probe(struct agent *a)
{
	if (!mig_is_released(&a->mig))
		gpu_monitor_probe(a->gpus.monitor);
}

void agent_gpus_follow_config(struct agent *a, bool moved)
{
	struct error err = ERROR_INIT;

	if (!a->gpus.monitor) /* agent_gpus_start() follows */
		return;
	gpu_monitor_set_interval(a->gpus.monitor, a->facts.config->health.probe_interval_ns);
	/* The root of the driver's library has changed. Known GPUs stay until the new library answers. */
	if (moved) {
		a->gpus.monitor = gpu_monitor_stop(a->gpus.monitor);
		if (agent_gpus_start(a, &err) < 0)
			failure_set(&a->failure, &err);
		else if (mig_is_released(&a->mig))
			gpu_monitor_release(a->gpus.monitor);
	}
}
