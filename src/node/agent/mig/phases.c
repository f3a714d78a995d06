/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"

/* An allocation in progress at the withdrawal ends within this time. */
#define WITHDRAW_MS 200
#define MPS_QUIT_NS (30 * NS_PER_SEC) /* a daemon that does not quit is killed after 10 s */
#define RELEASE_NS  (10 * NS_PER_SEC)
#define REGISTER_NS (60 * NS_PER_SEC) /* for the registration of the new devices */
#define REBOOT_NS   (600 * NS_PER_SEC)

const struct mig_phase_row mig_phases[MIG_PHASES] = {
	[MIG_REST] = { .text = "rest" },
	[MIG_PLAN] = { "planning", mig_plan_enter, mig_plan_tick, 20, 0, NULL },
	[MIG_PAUSE] = { "pausing GPU clients", mig_pause_enter, mig_pause_tick, 1000, 0, NULL },
	[MIG_WITHDRAW] = { "withdrawing devices", mig_withdraw_enter, mig_withdraw_tick,
		WITHDRAW_MS, MPS_QUIT_NS, mig_withdraw_late },
	[MIG_HOST] = { .text = "stopping services", .enter = mig_host_enter },
	[MIG_RELEASE] = { "releasing the GPUs", mig_release_enter, mig_release_tick, 20,
		RELEASE_NS, mig_release_late },
	[MIG_APPLY] = { .text = "applying", .enter = mig_apply_enter },
	[MIG_REBOOT] = { "rebooting", mig_reboot_enter, mig_reboot_tick, 500, REBOOT_NS,
		mig_reboot_late },
	[MIG_SETTLE] = { "registering devices", mig_settle_enter, mig_settle_tick, 50,
		REGISTER_NS, mig_settle_late },
	[MIG_RESTORE] = { .text = "starting services", .enter = mig_restore_enter },
};
