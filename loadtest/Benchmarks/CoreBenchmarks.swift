import CallCore
import CallWire

/// The rules: what deciding one call costs, without codec, journal and bus.
enum CoreBenchmarks {
  static let bob = UserKey(app: "demo", user: "bob")
  static let devices: [DeviceID] = ["b1", "b2", "b3"]

  static func command(
    _ body: Command.Body, user: String = "bob", device: DeviceID, callee: UserKey, number: UInt64
  ) -> Command {
    Command(
      session: SessionRef(edge: 1, number: number), request: 1,
      user: UserKey(app: "demo", user: user), device: device, callee: callee, body: body)
  }

  /// Three devices ring, all say so, one answers, both connect, the caller hangs up, everything is
  /// acknowledged: 15 commands.
  static func oneCall(
    _ shard: inout ShardMachine, _ id: CallID, callee: UserKey, now: Timestamp,
    _ outcome: inout Outcome
  ) {
    func say(_ body: Command.Body, user: String? = nil, _ device: DeviceID, _ number: UInt64) {
      let command = command(
        body, user: user ?? callee.user, device: device, callee: callee, number: number)
      shard.handle(command, now: now, into: &outcome)
    }
    let request = PlaceRequest(call: id, description: "v=0 offer")
    say(.place(request), user: "alice\(id.low)", "a1", 9)
    for (index, device) in devices.enumerated() { say(.call(id, .alerting), device, UInt64(index)) }
    say(.call(id, .answer(description: "v=0 answer")), "b1", 0)
    say(.call(id, .connected), "b1", 0)
    say(.call(id, .connected), user: "alice\(id.low)", "a1", 9)
    say(.call(id, .hangUp), user: "alice\(id.low)", "a1", 9)
    for effect in outcome.effects {
      guard case .deliver(let session, let delivery) = effect else { continue }
      let ack = Command.Body.ack([Acknowledgement(call: id, version: delivery.version)])
      if session.number == 9 {
        say(ack, user: "alice\(id.low)", "a1", 9)
      } else {
        say(ack, devices[Int(session.number)], session.number)
      }
    }
    outcome.removeAll()
  }

  static func run(_ measure: Measure) {
    var shard = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    var now = Timestamp(microseconds: 1_000_000_000)
    shard.begin(now: now, into: &outcome)
    let callees = (0..<1000).map { UserKey(app: "demo", user: "user\($0)") }
    for callee in callees {
      for (index, device) in devices.enumerated() {
        let attach = command(
          .attach(Attach()), user: callee.user, device: device, callee: callee,
          number: UInt64(index))
        shard.handle(attach, now: now, into: &outcome)
      }
    }
    outcome.removeAll()
    var number: UInt64 = 0
    measure("core: one call of three devices, 15 commands", per: "call", runs: 10_000) { run in
      number += 1
      now = now + .milliseconds(10)
      shard.fire(now: now, into: &outcome)
      outcome.removeAll()
      oneCall(
        &shard, CallID(high: 0, low: number), callee: callees[run % 1000], now: now, &outcome)
    }
    measure("core: a query", runs: 100_000) { run in
      let id = CallID(high: 0, low: number)
      shard.handle(
        command(.call(id, .query), device: "b1", callee: callees[999], number: 0), now: now,
        into: &outcome
      )
      outcome.removeAll()
    }
    measure("core: shard of a user", runs: 1_000_000) { run in
      blackHole(ShardHash.shard(of: callees[run % 1000], count: 64))
    }
  }

  /// Decide, append, then speak, without a journal: what holding back and releasing costs.
  static func runPipeline(_ measure: Measure) {
    var pipeline = CommitPipeline(epoch: 1, writer: "benchmark", lastSequence: 0)
    let now = Timestamp(microseconds: 1)
    let reply = Effect.reply(SessionRef(edge: 1, number: 1), request: 1, .done)
    let entry = JournalEntry(call: CallID(high: 0, low: 1), change: .connected(caller: true))
    for count in [1, 40] {
      measure("pipeline: \(count) decisions, one append", per: "append", runs: 20_000) { run in
        for _ in 0..<count {
          var outcome = Outcome()
          outcome.entries.append(entry)
          outcome.effects.append(reply)
          outcome.raise(to: .urgent)
          pipeline.add(&outcome, now: now, lazyAppend: .milliseconds(5))
        }
        if let record = pipeline.nextAppend(now: now) { blackHole(ClusterCodec.encode(record)) }
        var released: [Effect] = []
        pipeline.appended(sequence: UInt64(run), releasing: &released)
        blackHole(released)
      }
    }
  }
}
