"""A serving engine written the slow way, one iteration at a time and one block at a time: what the simulator must equal.

It shares nothing with the simulator but the surface. Requests are objects in lists, blocks have numbers, and every decision is
written as vLLM's V1 scheduler makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Req:
    number: int
    arrival: int
    prompt: int
    output: int
    priority: int = 0
    hashes: tuple[int, ...] = ()
    tokens: int = 0  # generated
    computed: int = 0  # tokens in the cache
    target: int = 0  # tokens to compute before the next token appears
    blocks: list = field(default_factory=list)
    admitted: int = -1
    first: int = -1
    finish: int = -1
    preempted: int = 0
    cached: int = 0
    done: bool = False
    swapped: int = 0  # tokens whose cache waits in host memory
    swaps: int = 0


class Blocks:
    """Numbered blocks; a free block keeps what it held until it is taken again."""

    def __init__(self, count, size, unit=0):
        self.size, self.unit = size, unit
        self.free = list(range(count))  # head is taken first
        self.holds = {}  # block -> (name, index)
        self.named = {}  # name -> blocks in order, of a prefix (own) or a group (hash)
        self.users = {}  # hash name -> number of users

    def take(self, count):
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            self.forget(block)
        return taken

    def forget(self, block):
        name = self.holds.pop(block, None)
        if name is None:
            return
        if name >= 0:
            for other in self.named.pop(name):
                self.holds.pop(other, None)
        else:
            self.named[name].remove(block)
            if not self.named[name]:
                del self.named[name]


def need_of(req, size, upto):
    return -(-upto // size) - len(req.blocks)


class Stepper:
    def __init__(self, traffic, surface, limits, policy, arrivals):
        self.limits, self.surface, self.policy = limits, surface, policy
        self.reqs = [
            Req(i, arrivals[i], traffic.prompt[i], traffic.output[i],
                traffic.priority[i] if traffic.priority else 0,
                traffic.hashes[i] if traffic.hashes else ())
            for i in range(len(traffic))
        ]  # fmt: skip
        self.follows = traffic.follows
        self.think = traffic.think
        self.unsent = [i for i, r in enumerate(self.reqs) if r.arrival < 0] if traffic.users else []
        self.hashed = traffic.hashes is not None
        unit = traffic.hash_tokens // limits.block_tokens if self.hashed else 0
        self.unit_tokens = traffic.hash_tokens
        self.pool = Blocks(limits.blocks, limits.block_tokens, unit)
        self.waiting, self.pushed_out, self.running = [], [], []
        self.future = [r for r in self.reqs if r.arrival >= 0]
        self.iterations = 0
        self.lowest_free = limits.blocks
        self.host_used = self.copied = 0
        self.copy = round(limits.swap_time * 2**surface.bits)

    # ---------------------------------------------------------------- blocks

    def release(self, req, back):
        """Blocks go back last first; with caching they stay findable."""
        pool, limits = self.pool, self.limits
        if not limits.caching:
            pool.free.extend(reversed(req.blocks))
        elif not self.hashed:
            full = req.computed // limits.block_tokens
            name = -1 - req.number
            for old in pool.named.pop(name, []):
                pool.holds.pop(old)
            for block in req.blocks[:full]:
                pool.holds[block] = name
            if full:
                pool.named[name] = list(req.blocks[:full])
            pool.free.extend(reversed(req.blocks))
        else:
            self.release_hashed(req)
        req.blocks = []

    def release_hashed(self, req):
        pool, unit = self.pool, self.pool.unit
        groups = req.groups
        pool.free.extend(reversed(req.blocks[len(groups) * unit :]))
        for index in reversed(range(len(groups))):
            name, blocks = groups[index], req.blocks[index * unit : (index + 1) * unit]
            if name is None:
                pool.free.extend(reversed(blocks))
                continue
            pool.users[name] -= 1
            if not pool.users[name]:
                del pool.users[name]
                pool.free.extend(reversed(blocks))

    def lookup(self, req, target):
        """(tokens found, blocks of them in use)."""
        pool, limits = self.pool, self.limits
        if req.swapped:
            return req.swapped, 0
        if not limits.caching:
            return 0, 0
        if not self.hashed:
            return len(pool.named.get(-1 - req.number, [])) * limits.block_tokens, 0
        found = shared = 0
        for name in req.hashes[: min(target - 1, req.prompt) // self.unit_tokens]:
            if name not in pool.named:
                break
            found += self.unit_tokens
            shared += pool.unit if name in pool.users else 0
        return found, shared

    def claim(self, req, found):
        pool = self.pool
        req.groups = []
        if req.swapped:
            blocks = -(-req.swapped // self.limits.block_tokens)
            self.host_used -= blocks
            self.copied += blocks
            req.swapped = 0
            return
        if not found:
            return
        if not self.hashed:
            blocks = pool.named.pop(-1 - req.number)
            for block in blocks:
                pool.holds.pop(block)
                pool.free.remove(block)
            req.blocks = blocks
            return
        for name in req.hashes[: found // self.unit_tokens]:
            for block in pool.named[name]:
                if name not in pool.users:
                    pool.free.remove(block)
            pool.users[name] = pool.users.get(name, 0) + 1
            req.blocks = req.blocks + list(pool.named[name])
            req.groups.append(name)

    def name_groups(self, req, upto):
        if not (self.limits.caching and self.hashed):
            return
        pool, unit = self.pool, self.pool.unit
        for index in range(len(req.groups), min(upto, req.prompt) // self.unit_tokens):
            name, blocks = req.hashes[index], req.blocks[index * unit : (index + 1) * unit]
            if name in pool.named:
                req.groups.append(None)
                continue
            pool.named[name] = blocks
            pool.users[name] = 1
            for block in blocks:
                pool.holds[block] = name
            req.groups.append(name)

    # ---------------------------------------------------------------- one schedule

    def rank(self, req):
        return self.policy.key(req.prompt, req.priority, req.arrival, req.number)

    def push_out(self):
        victim = max(self.running, key=self.rank) if self.policy.ranks else self.running[-1]
        self.running.remove(victim)
        self.preempted = True
        if victim.done:  # its last token is in flight: it only lets go early
            self.release(victim, False)
            self.lag.remove(victim)
            return victim
        blocks = -(-victim.computed // self.limits.block_tokens)
        if self.limits.host_blocks and self.host_used + blocks <= self.limits.host_blocks:
            self.host_used += blocks
            self.copied += blocks
            victim.swapped = victim.computed
            victim.swaps += 1
        self.release(victim, True)
        victim.computed = 0
        victim.preempted += 1
        if self.policy.ranks:
            self.waiting.append(victim)
        else:
            self.pushed_out.insert(0, victim)
        return victim

    def grow(self, req, upto):
        """Blocks for tokens up to `upto`; False when the request itself had to go."""
        while need_of(req, self.limits.block_tokens, upto) > len(self.pool.free):
            if self.push_out() is req:
                return False
        req.blocks = req.blocks + self.pool.take(max(0, need_of(req, self.limits.block_tokens, upto)))
        return True

    def schedule(self, now, seen, prompts=True, decodes=True):
        limits, policy = self.limits, self.policy
        paged = limits.kv == "paged"
        budget = limits.budget if policy.refills else 1 << 60
        batch, chunks = [], []
        self.preempted = False
        empty = not self.running
        if policy.ranks and paged and decodes:
            # what decoding needs is counted before anybody takes a block, so that nobody takes one and gives it back
            size = limits.block_tokens
            while sum(need_of(r, size, r.computed + 1) for r in self.running if self.decodes(r)) > len(self.pool.free):
                self.push_out()
        for req in list(self.running):
            if req not in self.running or req.done:
                continue
            left = req.target - req.computed
            decoding = self.decodes(req)
            if (decoding and not decodes) or (not decoding and not prompts):
                continue
            count = 1 if decoding else min(left, budget)
            if count <= 0 or (paged and not self.grow(req, req.computed + count)):
                continue
            budget -= count
            if decoding:
                batch.append(req)
            else:
                chunks.append((req, count))
                self.name_groups(req, req.computed + count)
        batch = [req for req in batch if req in self.running]  # a prompt may have pushed out one that decodes
        if prompts and not self.preempted and (empty or policy.refills):
            self.admit(now, seen, budget, chunks)
        return batch, chunks

    @staticmethod
    def decodes(req):
        return not req.done and req.target - req.computed == 1 and req.tokens > 0 and not req.resuming

    def admit(self, now, seen, budget, chunks):
        limits = self.limits
        slots = min(limits.slots, limits.budget)
        self.waiting += [r for r in self.future if r.arrival <= seen]
        self.future = [r for r in self.future if r.arrival > seen]
        if self.policy.key is None:
            self.waiting.sort(key=lambda r: (r.arrival, r.number))
        else:
            self.waiting.sort(key=lambda r: self.policy.key(r.prompt, r.priority, r.arrival, r.number))
        while budget > 0 and len(self.running) < slots:
            queue = self.pushed_out or self.waiting
            if not queue:
                return
            req = queue[0]
            target = req.prompt + req.tokens
            found, shared = self.lookup(req, target)
            count = target - found
            if count > budget:
                if not limits.chunked:
                    return
                count = budget
            size = limits.block_tokens
            if limits.kv == "reserve":
                gate = -(-(req.prompt + req.output - 1) // size)
            else:
                gate = -(-(target if limits.whole_prompt else found + count) // size)
            if gate - shared > len(self.pool.free):
                return
            queue.pop(0)
            self.claim(req, found)
            wanted = gate if limits.kv == "reserve" else -(-(found + count) // size)
            req.blocks = req.blocks + self.pool.take(wanted - len(req.blocks))
            req.computed, req.target, req.resuming = found, target, True
            self.running.append(req)
            if req.admitted < 0:
                req.admitted, req.cached = now, found
            chunks.append((req, count))
            self.name_groups(req, found + count)
            budget -= count

    def plan(self, now, seen):
        if self.policy.mixes:
            return self.schedule(now, seen)
        _, chunks = self.schedule(now, seen, decodes=False)
        if chunks:
            return [], chunks
        return self.schedule(now, seen, prompts=False)

    # ---------------------------------------------------------------- time

    def price(self, batch, chunks):
        total = sum(req.computed + 1 for req in batch)
        copies, self.copied = self.copied * self.copy, 0
        if not chunks:
            a, b, end = self.surface.segment(len(batch), total)
            assert total < end
            return a + b * total + copies
        return copies + self.surface.mixed(len(batch), total, [(count, req.computed) for req, count in chunks])

    def land(self, batch, chunks, now):
        finished = []
        for req, count in [(r, 1) for r in batch] + chunks:
            req.computed += count
            if req.computed < req.target:
                continue
            req.tokens += 1
            req.target = req.prompt + req.tokens
            req.resuming = False
            if req.first < 0:
                req.first = now
            if req.tokens == req.output:
                req.finish, req.done = now, True
                finished.append(req)
        return finished

    def free_all(self, finished):
        for req in finished:
            self.running.remove(req)
            self.release(req, False)

    def after(self, finished, now):
        for req in finished:
            others = [o for o in self.reqs if self.follows and self.follows[o.number] == req.number]
            if self.unsent:
                others.append(self.reqs[self.unsent.pop(0)])
            for other in others:
                other.arrival = now + (round(self.think[other.number] * 2**self.surface.bits) if self.think else 0)
                self.future.append(other)

    def run(self):
        now, seen, self.lag = 0, 0, []
        while True:
            batch, chunks = self.plan(now, seen)
            self.lowest_free = min(self.lowest_free, len(self.pool.free))
            if not batch and not chunks:
                if self.lag or seen < now:
                    self.free_all(self.lag)
                    self.lag, seen = [], now
                    continue
                if self.pushed_out or self.waiting:
                    continue
                if not self.future:
                    return
                now = seen = max(now, min(r.arrival for r in self.future))
                continue
            self.iterations += 1
            assert len({b for r in self.running for b in r.blocks}) <= self.limits.blocks
            start, now = now, now + self.price(batch, chunks)
            finished = self.land(batch, chunks, now)
            if self.limits.asynchronous:
                self.free_all(self.lag)
                self.lag, seen = finished, start
            else:
                self.free_all(finished)
                seen = now
            self.after(finished, now)
