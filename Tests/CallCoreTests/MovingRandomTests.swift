import CallCore
import Testing

/// R24 in random orders: devices of both users take the call over, acknowledge or not, come and go, and the shard gets
/// new owners.
@Suite struct MovingRandomTests {
  private static let devices = [
    ("alice", "alice1"), ("alice", "alice2"), ("alice", "alice3"), ("bob", "b1"), ("bob", "b2"),
    ("bob", "b3"),
  ]

  @Test("each side has one device, all agree which, and no signal gets lost", arguments: 0..<400)
  func oneHolder(seed: Int) {
    var random = RandomRunTests.Random(state: UInt64(seed) + 1)
    var bench = Bench.answered("b1", "b2", "b3")
    var holders = ["alice": "alice1", "bob": "b1"]
    var epoch: UInt64 = 1
    for step in 0..<30 {
      let (user, device) = Self.devices[random.below(6)]
      switch random.below(10) {
      case 0...4:
        let from = Self.devices.filter { $0.0 == user }[random.below(3)].1
        let request = PullRequest(from: DeviceID(from), description: "offer \(step)")
        let reply = bench.say(.pull(request), device, of: user)
        let isHolder = holders[user] == device
        #expect(reply?.won == (isHolder || holders[user] == from), "seed \(seed), step \(step)")
        if reply?.won == true { holders[user] = device }
      case 5, 6: bench.acknowledgeAll()
      case 7:
        bench.say(.attach(Attach(attachedAt: bench.now)), user: user, device: device, callee: user)
      case 8: bench.pass(.milliseconds(Int64(random.below(900))))
      default:
        epoch += 1
        bench = bench.successor(byCheckpoint: random.below(2) != 0, epoch: epoch)
        for (user, device) in Self.devices {
          if user == "bob" { bench.announce(device) }
          if holders[user] == device, user == "alice" {
            bench.say(.resume, device, of: user, number: 0)
          }
        }
        bench.begin()
      }
      judge(&bench, holders, "seed \(seed), step \(step)")
    }
    exchange(&bench, holders, "seed \(seed)")
  }

  private func judge(_ bench: inout Bench, _ holders: [String: String], _ place: String) {
    for (user, device) in Self.devices {
      let state = bench.state(device, of: user)
      guard holders[user] != device else {
        #expect(state?.phase == .answered, "\(place): \(device) has it")
        if user == "alice" { #expect(state?.by?.device.text == holders["bob"], "\(place)") }
        continue
      }
      // Devices of the caller that never had it see the call as a whole.
      guard state?.phase == .ended else {
        #expect(user == "alice" && state?.by?.device.text == holders["bob"], "\(place): \(device)")
        continue
      }
      #expect(state?.reason == .moved || state?.reason == .answeredElsewhere, "\(place): \(device)")
    }
    #expect(bench.ends.isEmpty, "\(place)")
  }

  /// Both sides signal: each gets what the other one's device says.
  private func exchange(_ bench: inout Bench, _ holders: [String: String], _ place: String) {
    // Both are there.
    bench.say(.resume, holders["alice"] ?? "", of: "alice")
    bench.say(.attach(Attach(attachedAt: bench.now)), device: holders["bob"] ?? "")
    _ = bench.take()
    for (user, number) in [("alice", 10_000), ("bob", 10_001)] as [(String, UInt64)] {
      let verb = CallVerb.signal(.information, body: "of \(user)")
      bench.say(verb, holders[user] ?? "", of: user, number: number)
    }
    for (user, other) in [("alice", "bob"), ("bob", "alice")] {
      let signals = bench.signals(holders[user] ?? "")
      #expect(signals.map(\.body) == ["of \(other)"], "\(place): \(user)")
    }
  }
}
