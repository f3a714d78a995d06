/* SPDX-License-Identifier: Apache-2.0 */
/* gpuslice status: asks the agent for its status and prints it (status/view.h). */
#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"
#include "tools/cli/status/view.h"
#include "lib/http/client/client.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_NS (10 * NS_PER_SEC)

static const struct option_def options[] = {
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "run directory of the agent" },
	{ .name = "slices",
		.letter = 's',
		.type = OPTION_BOOL,
		.help = "show replicas, holders, ends of quanta" },
	{ .name = "json", .type = OPTION_BOOL, .help = "print the agent's answer as it is" },
};

static int agent_address(const struct options *o, char *ret, size_t cap, struct error *err)
{
	char socket[PATH_MAX];
	int n;

	if (path_join(socket, sizeof(socket), option_str(o, "run-dir", DEFAULT_RUN_DIR),
		    AGENT_SOCKET, err) < 0)
		return -1;
	n = snprintf(ret, cap, "unix:%s", socket);
	if (n < 0 || (size_t)n >= cap)
		return error_set(err, ERR_LIMIT, "the agent's address is too long");
	return 0;
}

static int run_status_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(HTTP_REPLY_MAX);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(HTTP_REPLY_MAX);
	const struct status_view_options view = {
		.slices = option_bool(o, "slices", false),
		.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR"),
	};
	char address[PATH_MAX + 8];

	(void)cmd;
	if (o->args.n > 0)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	if (agent_address(o, address, sizeof(address), err) < 0)
		return -1;
	if (http_call_json(address, "GET", "/v1/status", NULL, TIMEOUT_NS, &json, err) < 0) {
		if (err->code != ERR_UNAVAILABLE)
			return -1;
		return error_prefix(err,
			"no agent answers; is gpusliced running, with this --run-dir?");
	}
	if (option_bool(o, "json", false)) {
		buf_add(&text, buf_str(&json), json.len);
		buf_putc(&text, '\n');
	} else if (status_view(&text, buf_str(&json), json.len, &view, err) < 0) {
		return -1;
	}
	return output_write(NULL, buf_str(&text), text.len, err);
}

const struct cmd cmd_status = {
	.name = "status",
	.usage = "[OPTION]...",
	.summary = "show GPUs, their health, what is offered and who holds it",
	.description =
		"Asks the agent of this node over its unix socket in the run directory.\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_status_command,
};
