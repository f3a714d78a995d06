/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/mig/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/nvml/nvml.h"

int mig_tool_require(const struct cmd *cmd, const struct options *o, const char *const *names,
	struct error *err)
{
	char list[256] = "";
	size_t len = 0;

	for (; *names; names++) {
		const char *value = option_str(o, *names, NULL);

		if ((!value || !*value) && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? ", " : "", *names);
	}
	if (!len)
		return 0;
	(void)cmd_help(cmd);
	(void)fflush(stdout);
	return error_set(err, ERR_INVALID, "missing required flags '%s'", list);
}

int mig_tool_open(struct mig_editor **ret, const struct options *o, struct error *err)
{
	char path[PATH_MAX];

	if (nvml_find(path, option_str(o, "nvml", NULL), option_str(o, "driver-root", NULL),
		    err) < 0)
		return -1;
	return mig_editor_open(ret, path, err);
}

int mig_tool_json(const struct options *o, const char *other, bool *ret, struct error *err)
{
	const char *word = option_str(o, "output-format", other);

	if (strcmp(word, "json") != 0 && strcmp(word, other) != 0)
		return error_set(err, ERR_INVALID, "unrecognized 'output-format': %s", word);
	*ret = !strcmp(word, "json");
	return 0;
}

void mig_tool_notes(const struct strv *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		(void)fprintf(stderr, "note: %s\n", notes->v[i]);
}

int mig_tool_print(char *text, struct error *err)
{
	int r;

	if (!text)
		return error_nomem(err);
	r = fputs(text, stdout) < 0 || fflush(stdout) != 0
		    ? error_sys(err, errno, "write to standard output")
		    : 0;
	free(text);
	return r;
}
