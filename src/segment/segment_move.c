/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/segment_move.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/vma.h"

static void *pointer_at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* --- may it be moved? --------------------------------------------------------------------- */

/*
 * Descriptors of these kinds neither change a process's memory nor hold its pages, except during a
 * system call of one of its threads. (A pipe may hold a page, but only reads it.) Descriptors of
 * all other kinds may do so: rings of asynchronous I/O, handlers of page faults, devices, buffers
 * that devices share, unknown kinds.
 */
static bool is_harmless_name(const char *name)
{
	static const char *const harmless[] = {
		"anon_inode:[eventfd]",
		"anon_inode:[eventpoll]",
		"anon_inode:[pidfd]",
		"anon_inode:[signalfd]",
		"anon_inode:[timerfd]",
		"anon_inode:inotify",
	};

	for (size_t i = 0; i < ARRAY_COUNT(harmless); i++)
		if (!strcmp(name, harmless[i]))
			return true;
	return false;
}

/*
 * Is the socket of a domain whose sockets hold no pages? Sockets of XDP, RDS and AF_ALG, for
 * example, do hold pages. *ret_has_ring: the socket may have a packet ring, whose mapping is
 * harmless.
 */
static bool is_harmless_socket(int fd, bool *ret_has_ring)
{
	int domain = -1;
	socklen_t bytes = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes))
		return false;
	*ret_has_ring = domain == AF_PACKET;
	return domain == AF_UNIX || domain == AF_INET || domain == AF_INET6 ||
		domain == AF_NETLINK || domain == AF_PACKET;
}

/* Is the device a terminal, or one of /dev/null, zero, full, random and urandom? */
static bool is_harmless_device(dev_t device)
{
	enum {
		MAJOR_MEMORY = 1,
		MAJOR_TTY = 4,
		MAJOR_TTY_AUX = 5,
		MAJOR_PTS = 136,
		PTS_LAST = 143
	};
	enum {
		MINOR_NULL = 3,
		MINOR_ZERO = 5,
		MINOR_FULL = 7,
		MINOR_RANDOM = 8,
		MINOR_URANDOM = 9
	};
	unsigned number = minor(device);

	if (major(device) == MAJOR_MEMORY)
		return number == MINOR_NULL || number == MINOR_ZERO || number == MINOR_FULL ||
			number == MINOR_RANDOM || number == MINOR_URANDOM;
	return major(device) == MAJOR_TTY || major(device) == MAJOR_TTY_AUX ||
		(major(device) >= MAJOR_PTS && major(device) <= PTS_LAST);
}

enum { RINGS_MAX = 64 };

/* Inodes of sockets whose mappings are packet rings. A socket beyond RINGS_MAX is not harmless. */
struct rings {
	uint64_t ino[RINGS_MAX];
	uint32_t count;
};

static bool is_harmless(int directory, const char *entry, struct rings *rings)
{
	int fd = atoi(entry);
	struct stat status;
	char name[64];
	bool has_ring;
	ssize_t bytes;

	if (fstat(fd, &status))
		return errno == EBADF; /* the process has closed it since readdir() */
	switch (status.st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFIFO:
		return true;
	case S_IFCHR:
		return is_harmless_device(status.st_rdev);
	case S_IFSOCK:
		if (!is_harmless_socket(fd, &has_ring))
			return false;
		if (has_ring && rings->count == RINGS_MAX)
			return false;
		if (has_ring)
			rings->ino[rings->count++] = status.st_ino;
		return true;
	default:
		break;
	}
	bytes = readlinkat(directory, entry, name, sizeof(name) - 1);
	if (bytes <= 0)
		return false;
	name[bytes] = '\0';
	return is_harmless_name(name);
}

/* Does the process have a descriptor of a kind that is not known to be harmless? */
static bool has_stranger_open(struct rings *rings)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	bool is_found = !directory;

	while (!is_found && (entry = readdir(directory)))
		is_found = *entry->d_name != '.' &&
			!is_harmless(dirfd(directory), entry->d_name, rings);
	if (directory)
		closedir(directory);
	return is_found;
}

/*
 * Is the mapping of a kind that is not known to be harmless? The descriptors do not show this,
 * because a mapping outlives its descriptor. Mappings of files and memory, and the kernel's own
 * (such as [vdso]), are harmless. A packet ring is harmless if its socket is in `rings`.
 */
static bool is_stranger(const struct vma *vma, const struct rings *rings)
{
	static const char *const memory[] = {"/dev/shm/", "/dev/zero", "/dev/hugepages/"};

	if (!strncmp(vma->name, "socket:", strlen("socket:"))) {
		for (uint32_t i = 0; i < rings->count; i++)
			if (rings->ino[i] == vma->ino)
				return false;
		return true;
	}
	if (!vma->ino && *vma->name != '/')
		return strncmp(vma->name, "anon_inode:", strlen("anon_inode:")) == 0;
	if (*vma->name != '/' || !strncmp(vma->name, "/[aio]", strlen("/[aio]")) ||
		!strncmp(vma->name, "/dmabuf:", strlen("/dmabuf:")))
		return true;
	for (size_t i = 0; i < ARRAY_COUNT(memory); i++)
		if (!strncmp(vma->name, memory[i], strlen(memory[i])))
			return false;
	return !strncmp(vma->name, "/dev/", strlen("/dev/"));
}

struct survey {
	const struct rings *rings;
	uint64_t next; /* all memory from the start to here is ordinary private memory */
	uint64_t end;
	bool has_stranger;
	bool is_anonymous; /* all memory up to `next` is anonymous */
};

static bool is_anonymous(const struct vma *vma)
{
	return !vma->ino &&
		(!*vma->name || !strcmp(vma->name, "[heap]") || !strncmp(vma->name, "[anon:", 6));
}

/*
 * Is the memory a private mapping of the memfd? That is so after this process, or its parent before
 * fork(), has moved the memory in, and later moved it out while other threads ran.
 */
static bool was_moved(const struct vma *vma)
{
	return strstr(vma->name, "memfd:" SEGMENT_FILE_NAME " ") != NULL;
}

static bool is_ordinary(const struct vma *vma)
{
	return !vma->is_shared && vma->prot == (PROT_READ | PROT_WRITE) &&
		(is_anonymous(vma) || was_moved(vma));
}

static bool survey_see(void *user, const struct vma *vma)
{
	struct survey *survey = user;

	if (vma->start <= survey->next && survey->next < vma->end && survey->next < survey->end &&
		is_ordinary(vma)) {
		survey->next = vma->end;
		survey->is_anonymous = survey->is_anonymous && is_anonymous(vma);
	}
	survey->has_stranger = is_stranger(vma, survey->rings);
	return !survey->has_stranger;
}

/* Does the process have locked memory? To learn which memory is locked would be expensive. */
static bool has_locked_memory(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long kib = 1;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib != 0;
}

static bool has_policy(uint64_t start)
{
	int mode = MPOL_DEFAULT;

	/* A sandbox that refuses this call refuses set_mempolicy(), too, so there is no policy. */
	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, start, MPOL_F_ADDR))
		return false;
	return mode != MPOL_DEFAULT;
}

bool segment_may_move(uint64_t start, uint64_t bytes, bool *ret_is_anonymous)
{
	struct rings rings = {.count = 0};
	struct survey survey = {
		.rings = &rings, .next = start, .end = start + bytes, .is_anonymous = true};
	bool may = !has_stranger_open(&rings) && !vmas_read(survey_see, &survey) &&
		!survey.has_stranger && survey.next >= survey.end && !has_policy(start) &&
		!has_locked_memory();

	*ret_is_anonymous = survey.is_anonymous;
	return may;
}

/* --- in ----------------------------------------------------------------------------------- */

/*
 * Write the memory at `start` to the file (`is_written`), or read it from there. The function
 * repeats the system call until all bytes are copied. Returns 0 or -errno.
 */
static int bytes_copy(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_written)
{
	while (bytes) {
		ssize_t count = is_written ? pwrite(file, pointer_at(start), bytes, (off_t)offset)
					   : pread(file, pointer_at(start), bytes, (off_t)offset);

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return count ? -errno : -EIO;
		start += (uint64_t)count;
		offset += (uint64_t)count;
		bytes -= (uint64_t)count;
	}
	return 0;
}

#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)

/*
 * Read the pagemap entries of `count` pages from `first_page` on. When they cannot be read, or
 * `pagemap` is -1, all pages count as present.
 */
static void pages_look(int pagemap, uint64_t first_page, uint64_t *words, size_t count)
{
	size_t bytes = count * sizeof(*words);

	if (pread(pagemap, words, bytes, (off_t)(first_page * sizeof(*words))) == (ssize_t)bytes)
		return;
	for (size_t i = 0; i < count; i++)
		words[i] = PAGE_PRESENT;
}

/* Copy the pages to the file. Untouched anonymous pages stay holes there. Returns 0 or -errno. */
static int pages_copy(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_anonymous)
{
	uint64_t page_bytes = (uint64_t)getpagesize();
	int pagemap = is_anonymous ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
	uint64_t words[512];
	int error = 0;

	for (uint64_t done = 0; done < bytes && !error;) {
		size_t count = (size_t)min_u64(ARRAY_COUNT(words), (bytes - done) / page_bytes);
		size_t first = 0;

		pages_look(pagemap, (start + done) / page_bytes, words, count);
		while (first < count && !error) {
			size_t last = first;

			while (last < count && words[last] & (PAGE_PRESENT | PAGE_SWAPPED))
				last++;
			error = bytes_copy(file, offset + done + first * page_bytes,
				start + done + first * page_bytes, (last - first) * page_bytes,
				true);
			first = max_u64(last, first + 1);
		}
		done += count * page_bytes;
	}
	if (pagemap >= 0)
		close(pagemap);
	return error;
}

int segment_hole_punch(int file, uint64_t offset, uint64_t bytes)
{
	return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		       (off_t)bytes)
		? -errno
		: 0;
}

int segment_move_in(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_anonymous)
{
	int error = pages_copy(file, offset, start, bytes, is_anonymous);

	if (!error &&
		mmap(pointer_at(start), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
			(off_t)offset) == MAP_FAILED)
		error = -errno;
	if (error) {
		segment_hole_punch(file, offset, bytes);
		return error;
	}
	/* A child of a bare fork system call, which runs no handlers, must not share the memory. */
	madvise(pointer_at(start), bytes, MADV_DONTFORK);
	return 0;
}

/* --- out ---------------------------------------------------------------------------------- */

/* A mapping of a part of a segment. */
struct piece {
	uint64_t start;
	uint64_t bytes;
	uint64_t offset;
	int prot;
};

struct pieces {
	dev_t dev;
	ino_t ino;
	uint64_t offset;
	uint64_t bytes;
	struct piece list[64];
	uint32_t count;
};

static bool pieces_see(void *user, const struct vma *vma)
{
	struct pieces *pieces = user;
	uint64_t vma_bytes = vma->end - vma->start;

	if (!vma->is_shared || vma->dev != pieces->dev || vma->ino != pieces->ino ||
		vma->offset < pieces->offset || vma->offset - pieces->offset >= pieces->bytes)
		return true;
	pieces->list[pieces->count++] =
		(struct piece){vma->start, vma_bytes, vma->offset, vma->prot};
	return pieces->count < ARRAY_COUNT(pieces->list);
}

static bool map_over(const struct piece *piece, int prot, int flags, int file)
{
	return mmap(pointer_at(piece->start), piece->bytes, prot, flags | MAP_FIXED, file,
		       file < 0 ? 0 : (off_t)piece->offset) != MAP_FAILED;
}

/* Map anonymous memory over the piece, and read its bytes from the file. Returns 0 or -errno. */
static int piece_copy_back(const struct piece *piece, int file)
{
	uint64_t end = piece->offset + piece->bytes;
	off_t data = (off_t)piece->offset;
	int error = 0;

	if (!map_over(piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1))
		return -errno;
	while (!error && (data = lseek(file, data, SEEK_DATA)) >= 0 && (uint64_t)data < end) {
		off_t hole = lseek(file, data, SEEK_HOLE);
		uint64_t stop = hole < 0 ? end : min_u64((uint64_t)hole, end);

		error = bytes_copy(file, (uint64_t)data,
			piece->start + ((uint64_t)data - piece->offset), stop - (uint64_t)data,
			false);
		data = (off_t)stop;
	}
	if (error && !map_over(piece, piece->prot, MAP_SHARED, file))
		abort(); /* the program would continue with wrong bytes in its memory */
	if (!error && piece->prot != (PROT_READ | PROT_WRITE))
		mprotect(pointer_at(piece->start), piece->bytes, piece->prot);
	return error;
}

/*
 * Make the kernel copy each page, as for a write. The bytes stay as they are, because other threads
 * may write to the pages meanwhile.
 */
static void pages_own(uint64_t start, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)getpagesize();

	if (madvise(pointer_at(start), bytes, MADV_POPULATE_WRITE) == 0)
		return;
	for (uint64_t done = 0; done < bytes; done += page_bytes)
		__atomic_fetch_or(
			(volatile uint8_t *)pointer_at(start + done), 0, __ATOMIC_RELAXED);
}

/* Map the file privately over the piece; let the kernel copy each page. Returns 0 or -errno. */
static int piece_make_private(const struct piece *piece, int file)
{
	if (!map_over(piece, PROT_READ | PROT_WRITE, MAP_PRIVATE, file))
		return -errno;
	pages_own(piece->start, piece->bytes);
	if (piece->prot != (PROT_READ | PROT_WRITE))
		mprotect(pointer_at(piece->start), piece->bytes, piece->prot);
	return 0;
}

/* Move out the pieces that one scan of the mappings finds. Returns how many, or -errno. */
static int pieces_move_out(struct pieces *pieces, int file, bool is_alone)
{
	int error;

	pieces->count = 0;
	error = vmas_read(pieces_see, pieces);
	for (uint32_t i = 0; i < pieces->count && !error; i++)
		error = is_alone ? piece_copy_back(&pieces->list[i], file)
				 : piece_make_private(&pieces->list[i], file);
	return error ? error : (int)pieces->count;
}

int segment_move_out(int file, uint64_t offset, uint64_t bytes, bool is_alone)
{
	struct pieces pieces = {.offset = offset, .bytes = bytes};
	struct stat status;
	int found;

	if (fstat(file, &status))
		return -errno;
	pieces.dev = status.st_dev;
	pieces.ino = status.st_ino;
	/* Scan until no piece is found, because other threads may change mappings during a scan. */
	do
		found = pieces_move_out(&pieces, file, is_alone);
	while (found == ARRAY_COUNT(pieces.list) || (found > 0 && !is_alone));
	return found < 0 ? found : segment_hole_punch(file, offset, bytes);
}
