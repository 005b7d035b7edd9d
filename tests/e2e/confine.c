/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Run a program without some system calls, as containers and hardened kernels do.
 *
 *   confine docker|users|yama PROGRAM [ARGUMENTS]
 *
 * docker: those that Docker's default list refuses to a container without capabilities, with its
 *         errors; also namespaces by clone() and AF_VSOCK sockets.
 * users:  those that make namespaces, as a kernel without user namespaces for ordinary users.
 * yama:   those that Yama's ptrace_scope 2 refuses to a process that reads a sibling's memory.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PROGRAM_MAX = 256,
	NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
		CLONE_NEWPID | CLONE_NEWNET,
};

struct refusal {
	long number;
	int error;
};

/* clang-format off */
static const struct refusal docker[] = {
	{SYS_clone3, ENOSYS}, /* a filter cannot see its flags; the C library then uses clone() */
	{SYS_unshare, EPERM}, {SYS_setns, EPERM},
	{SYS_mount, EPERM}, {SYS_umount2, EPERM}, {SYS_pivot_root, EPERM},
	{SYS_fsopen, EPERM}, {SYS_fsmount, EPERM}, {SYS_fsconfig, EPERM}, {SYS_fspick, EPERM},
	{SYS_open_tree, EPERM}, {SYS_move_mount, EPERM},
	{SYS_pidfd_getfd, EPERM}, {SYS_kcmp, EPERM}, {SYS_open_by_handle_at, EPERM},
	{SYS_get_mempolicy, EPERM}, {SYS_set_mempolicy, EPERM}, {SYS_mbind, EPERM},
	{SYS_migrate_pages, EPERM}, {SYS_move_pages, EPERM},
	{SYS_userfaultfd, EPERM}, {SYS_bpf, EPERM}, {SYS_perf_event_open, EPERM},
	{SYS_io_uring_setup, EPERM}, {SYS_io_uring_enter, EPERM}, {SYS_io_uring_register, EPERM},
	{SYS_add_key, EPERM}, {SYS_request_key, EPERM}, {SYS_keyctl, EPERM},
	{SYS_init_module, EPERM}, {SYS_finit_module, EPERM}, {SYS_delete_module, EPERM},
	{SYS_sethostname, EPERM}, {SYS_setdomainname, EPERM}, {SYS_syslog, EPERM},
	{SYS_settimeofday, EPERM}, {SYS_clock_settime, EPERM}, {SYS_reboot, EPERM},
	{SYS_swapon, EPERM}, {SYS_swapoff, EPERM}, {SYS_quotactl, EPERM}, {SYS_acct, EPERM},
};
static const struct refusal users[] = {{SYS_clone3, ENOSYS}, {SYS_unshare, EPERM}};
static const struct refusal yama[] = {
	{SYS_ptrace, EPERM}, {SYS_pidfd_getfd, EPERM}, {SYS_kcmp, EPERM},
	{SYS_process_vm_readv, EPERM}, {SYS_process_vm_writev, EPERM},
};
/* clang-format on */

static const struct list {
	const char *name;
	const struct refusal *refusals;
	size_t count;
	int is_without_namespaces;
} lists[] = {
	{"docker", docker, sizeof(docker) / sizeof(*docker), 1},
	{"users", users, sizeof(users) / sizeof(*users), 1},
	{"yama", yama, sizeof(yama) / sizeof(*yama), 0},
};

static struct sock_filter filter[PROGRAM_MAX];
static unsigned short length;

static void append(struct sock_filter instruction)
{
	filter[length++] = instruction;
}

static void append_load(size_t offset)
{
	append((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void append_error(int error)
{
	append((struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)));
}

/* Skip the next `count` instructions unless the loaded word is `value`. */
static void append_unless_equal(long value, unsigned char count)
{
	append((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)value, 0, count));
}

/* The low words of arguments come first on the machines that have this test. */
static void append_argument_rules(void)
{
	append_unless_equal(SYS_clone, 3);
	append_load(offsetof(struct seccomp_data, args[0]));
	append((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1));
	append_error(EPERM);
	append_load(offsetof(struct seccomp_data, nr));
	append_unless_equal(SYS_socket, 3);
	append_load(offsetof(struct seccomp_data, args[0]));
	append_unless_equal(AF_VSOCK, 1);
	append_error(EPERM);
}

static int confine(const struct list *list)
{
	struct sock_fprog program = {.filter = filter};

	append_load(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < list->count; i++) {
		append_unless_equal(list->refusals[i].number, 1);
		append_error(list->refusals[i].error);
	}
	if (list->is_without_namespaces)
		append_argument_rules();
	append((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program.len = length;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof(lists) / sizeof(*lists); i++) {
		if (strcmp(argv[1], lists[i].name) != 0)
			continue;
		if (confine(&lists[i])) {
			perror("confine");
			return 1;
		}
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		return 127;
	}
	fprintf(stderr, "usage: confine docker|users|yama PROGRAM [ARGUMENTS]\n");
	return 2;
}
