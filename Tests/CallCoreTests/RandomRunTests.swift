import CallCore
import Testing

/// Many seeded runs of one shard: random commands in random order, lost and repeated, takeovers in
/// between. What must always be true is checked at each step and at the end.
@Suite struct RandomRunTests {
  struct Random {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9e37_79b9_7f4a_7c15
      var z = state
      z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
      z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
      return z ^ (z >> 31)
    }
    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
  }

  static let devices = ["b1", "b2", "b3"]

  /// A call, and everything that devices were notified of, across takeovers.
  private struct Run {
    let seed: Int
    var bench = Bench()
    var sessions: [String: SessionRef] = [:]
    var caller = Bench.session("alice1")
    var epoch: UInt64 = 1
    var winners: Set<String> = []
    var ringing: Set<String> = []
    var stops: [String: Set<EndReason>] = [:]
    var lastVersion: [String: UInt64] = [:]
    var wonDevice: String?

    mutating func attach(_ device: String, _ generation: UInt64, at: Timestamp) {
      let session = Bench.session(device, generation)
      sessions[device] = session
      bench.say(
        .attach(Attach(deviceName: device, attachedAt: at)), device: device, session: session)
    }

    mutating func bringCallerBack(_ generation: UInt64) {
      caller = Bench.session("alice1", generation)
      bench.caller(.resume, session: caller)
    }

    /// A device that refused rings no more.
    mutating func refuse(_ verb: CallVerb, _ device: String) {
      bench.say(verb, device, session: sessions[device])
      ringing.remove(device)
    }

    mutating func step(_ generation: UInt64, _ random: inout Random) {
      let device = RandomRunTests.devices[random.below(3)]
      let session = sessions[device]
      switch random.below(16) {
      case 0, 1: bench.say(.alerting, device, session: session)
      case 2, 3:
        guard bench.answer(device, "a", session: session)?.won == true else { break }
        winners.insert(device)
        ringing.remove(device)
      case 4: refuse(.decline(.here), device)
      case 5 where random.below(3) == 0: refuse(.decline(.everywhere), device)
      case 6: refuse(.busy, device)
      case 7 where random.below(3) == 0: bench.caller(.cancel, session: caller)
      case 8 where random.below(3) == 0: bench.caller(.hangUp, session: caller)
      case 9: bench.caller(.connected, session: caller)
      case 10:
        if let session { bench.close(device, session: session) }
        sessions[device] = nil
      case 11, 12: attach(device, generation, at: bench.now)
      case 13:
        bench.caller(.callerGone([Bench.callID]), session: caller)
        bringCallerBack(generation)
      case 14: bench.pass(.milliseconds(Int64(random.below(4000))))
      default:
        if random.below(3) == 0 { takeOver(byCheckpoint: random.below(2) != 0) }
      }
    }

    private mutating func takeOver(byCheckpoint: Bool) {
      epoch += 1
      bench = bench.successor(byCheckpoint: byCheckpoint, epoch: epoch)
      for (device, session) in sessions {
        bench.say(
          .attach(Attach(deviceName: device, announce: true)), device: device, session: session)
      }
      bench.begin()
      bench.caller(.resume, session: caller)
    }

    mutating func judge() {
      for case .deliver(let session, let delivery) in bench.take() {
        let name = session == caller ? "alice1" : sessions.first { $0.value == session }?.key
        guard let name else { continue }
        let key = "\(name)/\(session.number)"
        let last = lastVersion[key] ?? 0
        #expect(delivery.version != 0)
        lastVersion[key] = max(last, delivery.version)
        switch delivery.event {
        case .invite where delivery.version > last:
          #expect(winners.isEmpty, "seed \(seed): rings after somebody won")
          #expect(stops[name] == nil, "seed \(seed): \(name) rings after its end")
          ringing.insert(name)
        case .stop(let stop):
          ringing.remove(name)
          stops[name, default: []].insert(stop.reason)
          #expect(stops[name]?.count == 1, "seed \(seed): \(name) heard \(stops[name] ?? [])")
          if stop.reason == .answeredElsewhere {
            #expect(!winners.contains(name), "seed \(seed): the winner is told it lost")
          }
        case .answered(let answered) where name == "alice1":
          wonDevice = wonDevice ?? answered.by.device.text
          #expect(wonDevice == answered.by.device.text, "seed \(seed): two winners")
        case .invite, .answered, .ringing, .ringsUntil, .signal, .moved, .transfer: break
        }
      }
      #expect(winners.count <= 1, "seed \(seed): two winners")
    }
  }

  @Test(arguments: 0..<400) func oneStory(seed: Int) {
    var random = Random(state: UInt64(seed))
    var run = Run(seed: seed)
    for device in Self.devices where random.below(4) > 0 {
      run.attach(device, 0, at: Timestamp(microseconds: 0))
    }
    run.bench.place(seconds: UInt32(5 + random.below(20)), session: run.caller)
    run.judge()
    for generation: UInt64 in 1...40 {
      run.step(generation, &random)
      run.judge()
    }
    // Everybody comes back, time passes, and all is over.
    for device in Self.devices { run.attach(device, 900, at: run.bench.now) }
    run.bringCallerBack(900)
    run.judge()
    run.bench.pass(.seconds(100))
    if let winner = run.winners.first {
      run.bench.say(.hangUp, winner, session: run.sessions[winner])
      run.ringing.remove(winner)
    }
    run.judge()
    #expect(run.ringing.isEmpty, "seed \(seed): nobody keeps ringing")
    #expect(run.bench.state("b1")?.phase == .ended, "seed \(seed)")
    #expect(run.bench.ends.count <= 1, "seed \(seed): one end, one record")
  }
}
