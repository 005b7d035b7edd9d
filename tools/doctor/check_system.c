/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/agent_protocol.h"
#include "base/arith.h"
#include "common/user_namespace.h"
#include "doctor/checks.h"
#include "doctor/trial.h"
#include "os/setting.h"
#include "os/yama.h"
#include "run/view.h"

enum {
	FILES_MANY = 512, /* open files that a program with some lanes and devices may need */
};

static bool is_root(void)
{
	return geteuid() == 0;
}

/* The number in a file of /proc/sys; `fallback` if the file is missing or has no number. */
static long sysctl_number(const char *path, long fallback)
{
	FILE *file = fopen(path, "re");
	long value = fallback;

	if (!file)
		return fallback;
	if (fscanf(file, "%ld", &value) != 1)
		value = fallback;
	fclose(file);
	return value;
}

/* --- the kernel --- */

static void check_kernel(struct findings *findings)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	uname(&name);
	sscanf(name.release, "%u.%u", &major, &minor);
	if (major < 5 || (major == 5 && minor < 14))
		finding_add(findings, "kernel", NULL, FINDING_FAILS,
			"Linux %s; urnic needs Linux 5.14 or newer", name.release);
	else if (major < 6 || (major == 6 && minor < 2))
		finding_add(findings, "kernel", NULL, FINDING_LIMITED,
			"Linux %s; packets bypass the kernel's UDP, which halves the latency of short "
			"messages, from Linux 6.2 on",
			name.release);
	else
		finding_add(findings, "kernel", NULL, FINDING_OK, "Linux %s", name.release);
}

/* --- namespaces --- */

/* A trial: enter new namespaces. On failure the child prints the call that failed. */
static int namespaces_try(void *unused)
{
	int result;

	(void)unused;
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) == 0)
		return 0;
	result = user_namespace_enter(0, 0);
	if (result < 0) {
		fputs("unshare(CLONE_NEWUSER)", stderr);
		return result;
	}
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) == 0)
		return 0;
	fputs("unshare(CLONE_NEWNET)", stderr);
	return -errno;
}

/* A sentence that says what lets this user make namespaces. */
static const char *namespaces_remedy(void)
{
	if (sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0)
		return "let root run `sysctl user.max_user_namespaces=15000`";
	if (sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		return "let root run `sysctl kernel.unprivileged_userns_clone=1`";
	if (sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
		return "let root run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
	return "give the container CAP_SYS_ADMIN, or a seccomp list that has unshare and mount";
}

static void check_namespaces(struct findings *findings)
{
	struct trial trial = trial_run(namespaces_try, NULL);

	if (trial.result == 0)
		finding_add(findings, "namespaces", NULL, FINDING_OK,
			"network namespaces can be made, as `urnic pair` and `urnic host` need");
	else
		finding_add(findings, "namespaces", NULL, FINDING_LIMITED,
			"`urnic pair` and `urnic host` do not work, because %s fails (%s): %s",
			trial.said[0] ? trial.said : "unshare", trial_reason(&trial),
			namespaces_remedy());
}

/* A trial: enter the view of `urnic run`. On failure the child prints the call that failed. */
static int view_try(void *unused)
{
	const char *call;
	int result;

	(void)unused;
	setenv("URNIC_LOG", "off", 1);
	settings_read();
	result = view_enter(!is_root(), &call);
	if (result < 0)
		fputs(call, stderr);
	return result;
}

static void check_view(struct findings *findings)
{
	struct trial trial = trial_run(view_try, NULL);

	if (trial.result == 0)
		finding_add(findings, "view", NULL, FINDING_OK,
			"`urnic run%s` shows the devices in /sys and /dev, as UCX and ibstat need",
			is_root() ? "" : " --view");
	else
		finding_add(findings, "view", NULL, FINDING_LIMITED,
			"UCX and ibstat find no device, because /sys and /dev cannot show them: %s "
			"fails (%s): %s",
			trial.said[0] ? trial.said : "unshare", trial_reason(&trial),
			namespaces_remedy());
}

/* --- rights --- */

static uint64_t capabilities_effective(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static bool has_capability(unsigned number)
{
	return capabilities_effective() >> number & 1;
}

static void check_capabilities(struct findings *findings)
{
	static const struct {
		unsigned number;
		const char *name;
	} known[] = {
		{CAP_NET_RAW, "CAP_NET_RAW"},
		{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"},
		{CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
		{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	};
	char list[128] = "";
	size_t bytes = 0;

	for (size_t i = 0; i < ARRAY_COUNT(known); i++)
		if (has_capability(known[i].number))
			bytes += (size_t)snprintf(list + bytes, sizeof(list) - bytes, "%s%s",
				bytes ? ", " : "", known[i].name);
	finding_add(findings, "capabilities", NULL, FINDING_NOTE,
		"%s; urnic needs none, and uses CAP_NET_RAW",
		list[0] ? list : "none of those that urnic could use");
}

static int packet_socket_try(void *unused)
{
	(void)unused;
	return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) < 0 ? -errno : 0;
}

static void check_raw(struct findings *findings)
{
	struct trial trial = trial_run(packet_socket_try, NULL);

	if (trial.result == 0)
		finding_add(findings, "raw", NULL, FINDING_OK,
			"packets may bypass the kernel's UDP, and raw packet queue pairs work");
	else
		finding_add(findings, "raw", NULL, FINDING_LIMITED,
			"packets pass through UDP sockets, which doubles the latency of short "
			"messages, and raw packet queue pairs fail (socket(AF_PACKET): %s): run the "
			"program as root or with an ambient CAP_NET_RAW",
			trial_reason(&trial));
}

static void check_yama(struct findings *findings)
{
	int scope = yama_scope();

	if (scope <= YAMA_ALL)
		finding_add(findings, "yama", NULL, FINDING_OK,
			"processes of one user may access each other's memory");
	else if (scope == YAMA_RELATED)
		finding_add(findings, "yama", NULL, FINDING_OK,
			"ptrace_scope is 1; a program on urnic lets its user's processes access its "
			"memory (PR_SET_PTRACER)");
	else if (scope == YAMA_PRIVILEGED && has_capability(CAP_SYS_PTRACE))
		finding_add(findings, "yama", NULL, FINDING_OK,
			"ptrace_scope is 2, which CAP_SYS_PTRACE overrides");
	else
		finding_add(findings, "yama", NULL, FINDING_LIMITED,
			"ptrace_scope is %d, so two processes of this host exchange data by packets: %s",
			scope,
			scope == YAMA_PRIVILEGED
				? "let root run `sysctl kernel.yama.ptrace_scope=1`"
				: "only a reboot changes it (kernel.yama.ptrace_scope=1 in "
				  "/etc/sysctl.d)");
}

/* --- file systems and limits --- */

static void check_proc(struct findings *findings)
{
	if (access("/proc/self/fd", R_OK | X_OK) == 0 && access("/proc/self/exe", F_OK) == 0)
		finding_add(findings, "proc", NULL, FINDING_OK, "/proc is mounted");
	else
		finding_add(findings, "proc", NULL, FINDING_LIMITED,
			"/proc is not mounted, so two processes of this host exchange data by "
			"packets: `mount -t proc proc /proc`");
}

static void check_shm(struct findings *findings)
{
	struct stat status;

	if (stat("/dev/shm", &status) == 0 && S_ISDIR(status.st_mode) &&
		access("/dev/shm", W_OK | X_OK) == 0)
		finding_add(findings, "shm", NULL, FINDING_OK, "/dev/shm can be written");
	else
		finding_add(findings, "shm", NULL, FINDING_LIMITED,
			"/dev/shm cannot be written (%s); urnic needs /run or /tmp then, but UCX and "
			"MPIs need it: mount a tmpfs there (docker run --tmpfs /dev/shm)",
			strerror(errno));
}

static void check_files(struct findings *findings)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < AGENT_FILES_MIN)
		finding_add(findings, "files", NULL, FINDING_FAILS,
			"%llu open files, and urnicd needs %d: raise the limit (ulimit -n)",
			(unsigned long long)limit.rlim_cur, AGENT_FILES_MIN);
	else if (limit.rlim_cur < FILES_MANY)
		finding_add(findings, "files", NULL, FINDING_LIMITED,
			"%llu open files suffice for a few queue pairs and addresses only: raise the "
			"limit (ulimit -n)",
			(unsigned long long)limit.rlim_cur);
	else
		finding_add(findings, "files", NULL, FINDING_OK, "%llu open files",
			(unsigned long long)limit.rlim_cur);
}

static void check_memlock(struct findings *findings)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		finding_add(findings, "memlock", NULL, FINDING_OK, "no limit");
	else
		finding_add(findings, "memlock", NULL, FINDING_OK,
			"%llu KiB; urnic needs none, because it does not pin registered memory",
			(unsigned long long)limit.rlim_cur / 1024);
}

void check_system(struct findings *findings)
{
	check_kernel(findings);
	check_namespaces(findings);
	check_view(findings);
	check_capabilities(findings);
	check_raw(findings);
	check_yama(findings);
	check_proc(findings);
	check_shm(findings);
	check_files(findings);
	check_memlock(findings);
}
