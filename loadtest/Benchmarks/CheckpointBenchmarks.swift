import CallCore
import CallWire

/// The cost of a checkpoint: the worker's thread takes the snapshot and copies, piece by piece, what it
/// changes while it is being written; another thread does the rest.
enum CheckpointBenchmarks {
  static func run(_ measure: Measure) {
    for calls in [1000, 20_000] where measure.wants("checkpoint: \(calls)") {
      run(measure, calls: calls)
    }
  }

  private static func run(_ measure: Measure, calls: Int) {
    var shard = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    let now = Timestamp(microseconds: 1_000_000_000)
    shard.begin(now: now, into: &outcome)
    let callees = (0..<1000).map { UserKey(app: "demo", user: "user\($0)") }
    for callee in callees {
      for (index, device) in CoreBenchmarks.devices.enumerated() {
        let attach = CoreBenchmarks.command(
          .attach(Attach()), user: callee.user, device: device, callee: callee,
          number: UInt64(index))
        shard.handle(attach, now: now, into: &outcome)
      }
    }
    for number in 0..<calls {
      CoreBenchmarks.oneCall(
        &shard, CallID(high: 0, low: UInt64(number)), callee: callees[number % 1000], now: now,
        &outcome)
    }
    outcome.removeAll()
    let name = "checkpoint: \(calls) calls"
    measure("\(name), the worker: a snapshot", runs: 1000) { _ in blackHole(shard.snapshot) }
    var next = 0
    measure("\(name), the worker: one change, no snapshot", runs: 100) { _ in
      change(&shard, next % calls, callees, now, &outcome)
      next += 7919
    }
    measure("\(name), the worker: one change behind one", runs: 100) { _ in
      let snapshot = shard.snapshot
      change(&shard, next % calls, callees, now, &outcome)
      next += 7919
      blackHole(snapshot)
    }
    let snapshot = shard.snapshot
    measure("\(name), elsewhere: its entries", runs: 5) { _ in blackHole(snapshot.entries()) }
    let checkpoint = Checkpoint(sequence: 1, epoch: 1, entries: snapshot.entries())
    measure("\(name), elsewhere: encoded", runs: 5) { _ in
      blackHole(ClusterCodec.encode(checkpoint))
    }
    let bytes = ClusterCodec.encode(checkpoint)
    measure("\(name), a new owner: \(bytes.count / 1000) kB read back", runs: 5) { _ in
      guard let read = try? ClusterCodec.checkpoint(bytes) else { return }
      var fresh = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
      fresh.replay(read.entries, now: now)
      blackHole(fresh)
    }
  }

  /// A caller says again that it is there: a change of one call, and of nothing else.
  private static func change(
    _ shard: inout ShardMachine, _ number: Int, _ callees: [UserKey], _ now: Timestamp,
    _ outcome: inout Outcome
  ) {
    let resume = CoreBenchmarks.command(
      .call(CallID(high: 0, low: UInt64(number)), .resume), user: "alice\(number)", device: "a1",
      callee: callees[number % 1000], number: UInt64(number))
    shard.handle(resume, now: now, into: &outcome)
    outcome.removeAll()
  }
}
