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

  /// Everything that devices were notified of, across takeovers.
  struct Witness {
    var winners: Set<String> = []
    var ringing: Set<String> = []
    var stops: [String: Set<EndReason>] = [:]
    var lastVersion: [String: UInt64] = [:]
    var wonDevice: String?
  }

  static let devices = ["b1", "b2", "b3"]

  @Test(arguments: 0..<400)
  func oneStory(seed: Int) {
    var random = Random(state: UInt64(seed))
    var bench = Bench()
    var epoch: UInt64 = 1
    var generation: UInt64 = 0
    var witness = Witness()
    var sessions: [String: SessionRef] = [:]
    var callerSession = Bench.session("alice1")
    for device in Self.devices where random.below(4) > 0 {
      let session = Bench.session(device)
      sessions[device] = session
      bench.say(.attach(Attach(deviceName: device)), device: device, session: session)
    }
    bench.place(seconds: UInt32(5 + random.below(20)), session: callerSession)
    judge(&bench, sessions, callerSession, &witness, seed)
    for _ in 0..<40 {
      generation += 1
      let device = Self.devices[random.below(3)]
      let session = sessions[device]
      switch random.below(16) {
      case 0, 1: bench.say(.call(Bench.callID, .alerting), device: device, session: session)
      case 2, 3:
        let reply = bench.say(
          .call(Bench.callID, .answer(description: "a")), device: device, session: session)
        if reply?.won == true {
          witness.winners.insert(device)
          witness.ringing.remove(device)
        }
      case 4:
        bench.say(.call(Bench.callID, .decline(.here)), device: device, session: session)
        settle(&bench, device, &witness)
      case 5 where random.below(3) == 0:
        bench.say(.call(Bench.callID, .decline(.everywhere)), device: device, session: session)
        settle(&bench, device, &witness)
      case 6:
        bench.say(.call(Bench.callID, .busy), device: device, session: session)
        settle(&bench, device, &witness)
      case 7 where random.below(3) == 0:
        bench.caller(.call(Bench.callID, .cancel), session: callerSession)
      case 8 where random.below(3) == 0:
        bench.caller(.call(Bench.callID, .hangUp), session: callerSession)
      case 9: bench.caller(.call(Bench.callID, .connected), session: callerSession)
      case 10:
        if let session {
          bench.say(.sessionClosed(graceful: false), device: device, session: session)
        }
        sessions[device] = nil
      case 11, 12:
        let new = Bench.session(device, generation)
        sessions[device] = new
        bench.say(
          .attach(Attach(deviceName: device, attachedAt: bench.now)), device: device, session: new)
      case 13:
        bench.caller(.callerGone([Bench.callID]), session: callerSession)
        callerSession = Bench.session("alice1", generation)
        bench.caller(.call(Bench.callID, .resume), session: callerSession)
      case 14: bench.pass(.milliseconds(Int64(random.below(4000))))
      default:
        guard random.below(3) == 0 else { break }
        epoch += 1
        bench =
          random.below(2) == 0
          ? bench.takenOver(epoch: epoch) : takenOverByCheckpoint(bench, epoch)
        for (device, session) in sessions {
          bench.say(
            .attach(Attach(deviceName: device, announce: true)), device: device, session: session)
        }
        bench.run { $0.begin(now: $1, into: &$2) }
        bench.caller(.call(Bench.callID, .resume), session: callerSession)
      }
      judge(&bench, sessions, callerSession, &witness, seed)
    }
    // Everybody comes back, time passes, and all is over.
    for device in Self.devices {
      let new = Bench.session(device, 900)
      sessions[device] = new
      bench.say(
        .attach(Attach(deviceName: device, attachedAt: bench.now)), device: device, session: new)
    }
    callerSession = Bench.session("alice1", 900)
    bench.caller(.call(Bench.callID, .resume), session: callerSession)
    judge(&bench, sessions, callerSession, &witness, seed)
    bench.pass(.seconds(100))
    if let winner = witness.winners.first {
      bench.say(.call(Bench.callID, .hangUp), device: winner, session: sessions[winner])
      witness.ringing.remove(winner)
    }
    judge(&bench, sessions, callerSession, &witness, seed)
    #expect(witness.ringing.isEmpty, "seed \(seed): nobody keeps ringing")
    #expect(
      bench.say(.call(Bench.callID, .query), device: "b1")?.state?.phase == .ended, "seed \(seed)")
    let ends = bench.journal.filter { if case .ended = $0.change { true } else { false } }
    #expect(ends.count <= 1, "seed \(seed): one end, one record")
  }

  /// A device that refused rings no more.
  private func settle(_ bench: inout Bench, _ device: String, _ witness: inout Witness) {
    witness.ringing.remove(device)
  }

  private func takenOverByCheckpoint(_ bench: Bench, _ epoch: UInt64) -> Bench {
    var next = bench.restoredFromCheckpoint(epoch: epoch)
    next.journal = bench.journal
    return next
  }

  private func judge(
    _ bench: inout Bench, _ sessions: [String: SessionRef], _ caller: SessionRef,
    _ witness: inout Witness, _ seed: Int
  ) {
    for effect in bench.take() {
      guard case .deliver(let session, let delivery) = effect else { continue }
      let name = session == caller ? "alice1" : sessions.first { $0.value == session }?.key
      guard let name else { continue }
      let key = "\(name)/\(session.number)"
      let last = witness.lastVersion[key] ?? 0
      #expect(delivery.version != 0)
      let isNew = delivery.version > last
      witness.lastVersion[key] = max(last, delivery.version)
      switch delivery.event {
      case .invite where isNew:
        #expect(witness.winners.isEmpty, "seed \(seed): rings after somebody won")
        #expect(witness.stops[name] == nil, "seed \(seed): \(name) rings after its end")
        witness.ringing.insert(name)
      case .stop(let stop):
        witness.ringing.remove(name)
        witness.stops[name, default: []].insert(stop.reason)
        #expect(
          witness.stops[name]?.count == 1,
          "seed \(seed): \(name) heard \(witness.stops[name] ?? [])")
        if stop.reason == .answeredElsewhere {
          #expect(!witness.winners.contains(name), "seed \(seed): the winner is told it lost")
        }
      case .answered(let answered) where name == "alice1":
        witness.wonDevice = witness.wonDevice ?? answered.by.device.text
        #expect(witness.wonDevice == answered.by.device.text, "seed \(seed): two winners")
      case .invite, .answered, .ringing, .ringsUntil, .signal, .moved, .transfer: break
      }
    }
    #expect(witness.winners.count <= 1, "seed \(seed): two winners")
  }
}
