/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

static int run(const struct cmd *cmd, const struct options *o, struct error *err)
{
	(void)cmd;
	(void)o;
	return error_set(err, ERR_NOT_YET, "not here yet");
}

const struct cmd cmd_demo = {
	.name = "demo",
	.usage = "[OPTION]...",
	.summary = "show GPU slicing on this machine, with a simulated node if it has no GPU",
	.run = run,
};
