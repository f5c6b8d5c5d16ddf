// The textbook heap and the textbook timing wheel in JavaScript, for `benchmarks/heap_vs_wheel.py`.
//
// Reads one request per line, {structure, count, batch, feed, memory}, and answers each with one line of JSON. The jobs
// are those of `_heap_rivals.py`, number by number, and the checksum of their order shows it.

import { createInterface } from "node:readline";

const NOW_US = 1_767_225_600_000_000;
const AGEING_US = 30_000_000;
const SLOT_US = 2 ** 19;
const SLOTS = 256;

function makeJobs(count, batch) {
  let state = 1;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0);
  const jobs = [];
  let waitUs = 0;
  let createdAt = 0;
  for (let number = 0; number < count; number++) {
    if (number % batch === 0) {
      waitUs = random() >>> 5;
      createdAt = NOW_US - 2 ** 28 + Math.floor((number * 2 ** 27) / count);
    }
    jobs.push({
      id: number.toString(16).padStart(16, "0") + random().toString(16).padStart(8, "0"),
      priority: 1 + ((random() >>> 16) % 3),
      readyAt: NOW_US - waitUs,
      createdAt,
      dueAt: NOW_US + waitUs,
    });
  }
  return jobs;
}

const FEEDS = {
  created: () => 0,
  ready: (a, b) => a.readyAt - b.readyAt,
};

// The ageing is reckoned once per job and the comparator is a method: of four renditions the fastest.
class MinHeap {
  constructor() {
    this.entries = [];
  }

  less(a, b) {
    if (a.effective !== b.effective) return a.effective < b.effective;
    if (a.readyAt !== b.readyAt) return a.readyAt < b.readyAt;
    if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt;
    return a.id < b.id;
  }

  insert(job) {
    const { id, readyAt, createdAt } = job;
    const effective = Math.max(1, job.priority - Math.floor((NOW_US - readyAt) / AGEING_US));
    this.entries.push({ effective, readyAt, createdAt, id, job });
    this.siftUp(this.entries.length - 1);
  }

  extract() {
    const { entries } = this;
    if (entries.length === 0) return undefined;
    const top = entries[0];
    const last = entries.pop();
    if (entries.length > 0) {
      entries[0] = last;
      this.siftDown(0);
    }
    return top.job;
  }

  siftUp(index) {
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.less(this.entries[index], this.entries[parent])) return;
      this.swap(index, parent);
      index = parent;
    }
  }

  siftDown(index) {
    const { entries } = this;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      let least = index;
      if (left < entries.length && this.less(entries[left], entries[least])) least = left;
      if (right < entries.length && this.less(entries[right], entries[least])) least = right;
      if (least === index) return;
      this.swap(index, least);
      index = least;
    }
  }

  swap(a, b) {
    const entry = this.entries[a];
    this.entries[a] = this.entries[b];
    this.entries[b] = entry;
  }
}

class TimingWheel {
  constructor() {
    this.slots = Array.from({ length: SLOTS }, () => []);
    this.hand = 0;
  }

  insert(job) {
    const ticks = Math.floor((job.dueAt - NOW_US) / SLOT_US);
    this.slots[(this.hand + ticks) % SLOTS].push({ rounds: Math.floor(ticks / SLOTS), job });
  }

  advance() {
    const slot = this.slots[this.hand];
    const due = slot.filter((entry) => entry.rounds === 0);
    this.slots[this.hand] = slot.filter((entry) => entry.rounds > 0);
    for (const entry of this.slots[this.hand]) entry.rounds--;
    this.hand = (this.hand + 1) % SLOTS;
    return due;
  }
}

const STRUCTURES = {
  heap: {
    make: () => new MinHeap(),
    drain(heap) {
      const jobs = [];
      for (let job = heap.extract(); job !== undefined; job = heap.extract()) jobs.push(job);
      return jobs;
    },
  },
  wheel: {
    make: () => new TimingWheel(),
    drain(wheel) {
      const jobs = [];
      for (let slot = 0; slot < SLOTS; slot++) for (const entry of wheel.advance()) jobs.push(entry.job);
      return jobs;
    },
  },
};

function fill(structure, jobs) {
  const filled = structure.make();
  for (const job of jobs) filled.insert(job);
  return filled;
}

function measure({ structure, count, batch, feed }) {
  const jobs = feedOf(count, batch, feed);
  const start = performance.now();
  const filled = fill(STRUCTURES[structure], jobs);
  const inserted = performance.now();
  const drained = STRUCTURES[structure].drain(filled);
  const retrieved = performance.now();
  return { insert_ms: inserted - start, retrieve_ms: retrieved - inserted, checksum: checksum(drained) };
}

// So many copies together that what else happens in the process does not show.
function weigh({ structure, count, batch, feed }) {
  const jobs = feedOf(count, batch, feed);
  const copies = Math.ceil(200_000 / count);
  const filled = [];
  globalThis.gc();
  const before = process.memoryUsage().heapUsed;
  for (let copy = 0; copy < copies; copy++) filled.push(fill(STRUCTURES[structure], jobs));
  globalThis.gc();
  const after = process.memoryUsage().heapUsed;
  return { memory_kb: (after - before) / copies / 1000, copies: filled.length };
}

const feeds = new Map();

function feedOf(count, batch, feed) {
  const key = `${count} ${batch} ${feed}`;
  if (!feeds.has(key)) feeds.set(key, makeJobs(count, batch).sort(FEEDS[feed]));
  return feeds.get(key);
}

function checksum(jobs) {
  let sum = 0;
  for (const job of jobs) sum = (Math.imul(sum, 31) + Number.parseInt(job.id.slice(8, 16), 16)) >>> 0;
  return sum;
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(request.memory ? weigh(request) : measure(request))}\n`);
}
