/* SPDX-License-Identifier: Apache-2.0 */

/* The feature file of node feature discovery: when the agent writes it, its owner, and what an error of the
 * file system means. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/label-writer.h"
#include "lib/base/fd.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

struct filed {
	struct label_writer w;
	struct env *e;
	char path[PATH_MAX];
};

static void open_writer(struct filed *f, void *state, const char *name)
{
	struct error err = ERROR_INIT;

	f->e = ((struct node_env *)state)->e;
	assert_ok(path_join(f->path, sizeof(f->path), f->e->dir, name, &err), &err);
	label_writer_init(&f->w, &f->e->loop, LABELS_FILE);
}

static void end_writer(struct filed *f)
{
	label_writer_close(&f->w);
	run_for_ms(f->e, 1);
	label_writer_fini(&f->w);
}

static void set(struct filed *f, const char *labels)
{
	label_writer_set(&f->w, labels_of(labels), f->path);
	task_settle(f->e, &f->w.task);
}

static void write_label_text(const struct filed *f, const char *text)
{
	struct error err = ERROR_INIT;

	assert_ok(file_write_atomic(f->path, text, strlen(text), 0600, &err), &err);
}

static void assert_file(const struct filed *f, const char *want)
{
	struct buf b = BUF_INIT(64U << 10);
	struct error err = ERROR_INIT;

	assert_ok(file_read(f->path, &b, &err), &err);
	assert_string_equal(buf_str(&b), want);
	buf_fini(&b);
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void label_writer_file__creates_directories_and_is_removed_with_the_agent(void **state)
{
	struct filed f;
	struct stat st;

	open_writer(&f, *state, "features.d/gpu/labels");
	set(&f, "nvidia.com/a=1,nvidia.com/b=x");
	assert_file(&f, "nvidia.com/a=1\nnvidia.com/b=x\n");
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644); /* node feature discovery is another user */
	set(&f, "nvidia.com/a=2");
	assert_file(&f, "nvidia.com/a=2\n");
	assert_int_equal(f.w.writes, 2);
	end_writer(&f);
	assert_false(is_there(f.path));
}

static void label_writer_file__writes_only_changes(void **state)
{
	static const struct {
		const char *have, *want, *text;
		uint64_t writes;
	} rows[] = {
		{ "a=1\n", "a=1", "a=1\n", 0 },
		{ "# by hand\n\na=1", "a=1", "# by hand\n\na=1", 0 }, /* lines that are none */
		{ "a=1\nnvidia.com/gfd.timestamp=7\n", "a=1,nvidia.com/gfd.timestamp=9",
			"a=1\nnvidia.com/gfd.timestamp=7\n", 0 },
		{ "a=1\nb=2\n", "a=1", "a=1\n", 1 }, { "a=1\n", "a=1,b=2", "a=1\nb=2\n", 1 },
		{ "a=1=2\n", "a=1", "a=1\n", 1 },
		{ "a=2\na=1\n", "a=1", "a=2\na=1\n", 0 },          /* the last one counts */
		{ "", "a=1", "a=1\n", 1 }, { "a=1\n", "", "", 1 }, /* no GPU any more */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct filed f;

		open_writer(&f, *state, "labels");
		write_label_text(&f, rows[i].have);
		set(&f, rows[i].want);
		assert_file(&f, rows[i].text);
		assert_int_equal(f.w.writes, rows[i].writes);
		assert_true(f.w.written && f.w.written_wall_ns > 0);
		end_writer(&f);
	}
}

static void label_writer_file__tries_again_where_it_cannot_write(void **state)
{
	struct filed f;

	open_writer(&f, *state, "labels");
	assert_int_equal(mkdir(f.path, 0755), 0); /* in its place */
	set(&f, "a=1");
	assert_int_equal(f.w.task.last_error.code, ERR_IO);
	assert_true(task_is_fault(&f.w.task));
	assert_string_equal(f.w.task.logged_error, f.w.task.last_error.msg);
	assert_in_range(task_due_ms(&f.w.task), 29000, 30000);
	set(&f, "a=2"); /* does not hurry it */
	assert_in_range(task_due_ms(&f.w.task), 29000, 30000);
	assert_false(f.w.written);
	assert_int_equal(rmdir(f.path), 0);
	task_skip(&f.w.task);
	task_settle(f.e, &f.w.task);
	assert_file(&f, "a=2\n");
	assert_int_equal(f.w.task.last_error.code, ERR_NONE);
	end_writer(&f);
}

static void label_writer_file__needs_a_name(void **state)
{
	struct filed f;

	open_writer(&f, *state, "labels");
	f.path[0] = '\0';
	set(&f, "a=1");
	assert_int_equal(f.w.task.last_error.code, ERR_INVALID);
	assert_non_null(strstr(f.w.task.last_error.msg, "flags.gfd.outputFile"));
	end_writer(&f);
}

/* What node feature discovery would not read to its end is not written at all. */
static void label_writer_file__has_a_limit(void **state)
{
	struct filed f;
	struct buf list = BUF_INIT(256U << 10);

	open_writer(&f, *state, "labels");
	set(&f, "a=1");
	for (int i = 0; i < 3000; i++)
		buf_printf(&list, "%snvidia.com/a-long-name-%04d=%030d", i ? "," : "", i, i);
	assert_true(buf_ok(&list));
	set(&f, buf_str(&list));
	assert_int_equal(f.w.task.last_error.code, ERR_LIMIT);
	assert_file(&f, "a=1\n"); /* the last that could be written */
	buf_fini(&list);
	end_writer(&f);
	assert_false(is_there(f.path));
}

static void label_writer__leaves_files_of_others(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;
	char *theirs = write_file(e, "theirs", "x=y\n"), *ours = write_file(e, "ours", "");

	assert_int_equal(unlink(ours), 0);
	label_writer_init(&w, &e->loop, LABELS_FILE);
	/* Named, and another one named before anything was written. */
	label_writer_set(&w, labels_of("nvidia.com/a=1"), theirs);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), ours);
	assert_int_equal(access(theirs, F_OK), 0);
	task_settle(e, &w.task);
	assert_int_equal(access(ours, F_OK), 0);
	/* Our file is removed when the agent gets another file name. A foreign file stays while ours is not
	 * written yet. */
	label_writer_set(&w, labels_of("nvidia.com/a=1"), theirs);
	assert_int_equal(access(ours, F_OK), -1);
	label_writer_close(&w);
	assert_int_equal(access(theirs, F_OK), 0);
	run_for_ms(e, 1);
	label_writer_fini(&w);
	free(theirs);
	free(ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(label_writer_file__creates_directories_and_is_removed_with_the_agent),
		NODE_TEST(label_writer_file__writes_only_changes),
		NODE_TEST(label_writer_file__tries_again_where_it_cannot_write),
		NODE_TEST(label_writer_file__needs_a_name),
		NODE_TEST(label_writer_file__has_a_limit),
		NODE_TEST(label_writer__leaves_files_of_others),
	};

	return cmocka_run_group_tests_name("label-file", tests, NULL, NULL);
}
