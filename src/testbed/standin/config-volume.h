/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A ConfigMap as the kubelet mounts it. Each key is a symlink to ..data/KEY, and ..data is a symlink to a
 * directory with the date in its name. An update is one rename of ..data. So a reader sees the old set or the new
 * one, and a watcher of the files' inodes sees nothing. Thread: any.
 */
#include "testbed/standin/object.h"

/* Creates @dir if needed and swaps @data in. */
int config_volume_write(const char *dir, const struct str_map *data,
	struct error *err) MUST_USE;
