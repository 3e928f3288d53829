import CallCore
import Testing

/// R24 in random orders: devices of both users take the call over, acknowledge or not, come and go, and the shard gets
/// new owners.
@Suite struct MovingRandomTests {
  private static let devices = [
    ("alice", "alice1"), ("alice", "alice2"), ("alice", "alice3"), ("bob", "b1"), ("bob", "b2"),
    ("bob", "b3"),
  ]

  @Test(
    "each side has one device, all agree which, and no signal gets lost between them",
    arguments: 0..<400)
  func oneHolder(seed: Int) {
    var random = RandomRunTests.Random(state: UInt64(seed) + 1)
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    var holders = ["alice": "alice1", "bob": "b1"]
    var epoch: UInt64 = 1
    for step in 0..<30 {
      let (user, device) = Self.devices[random.below(6)]
      switch random.below(10) {
      case 0...4:
        let from = Self.devices.filter { $0.0 == user }[random.below(3)].1
        let request = PullRequest(from: DeviceID(from), description: "offer \(step)")
        let reply = bench.say(.call(Bench.callID, .pull(request)), user: user, device: device)
        let isHolder = holders[user] == device
        #expect(reply?.won == (isHolder || holders[user] == from), "seed \(seed), step \(step)")
        if reply?.won == true { holders[user] = device }
      case 5, 6: bench.acknowledgeAll()
      case 7:
        bench.say(.attach(Attach(attachedAt: bench.now)), user: user, device: device, callee: user)
      case 8: bench.pass(.milliseconds(Int64(random.below(900))))
      default:
        epoch += 1
        let journal = bench.journal
        bench =
          random.below(2) == 0
          ? bench.takenOver(epoch: epoch) : bench.restoredFromCheckpoint(epoch: epoch)
        bench.journal = journal
        for (user, device) in Self.devices {
          if user == "bob" { bench.say(.attach(Attach(announce: true)), device: device) }
          if holders[user] == device, user == "alice" {
            bench.say(.call(Bench.callID, .resume), user: user, device: device, number: 0)
          }
        }
        bench.run { $0.begin(now: $1, into: &$2) }
      }
      judge(&bench, holders, "seed \(seed), step \(step)")
    }
    exchange(&bench, holders, "seed \(seed)")
  }

  private func judge(_ bench: inout Bench, _ holders: [String: String], _ place: String) {
    for (user, device) in Self.devices {
      let state = bench.say(.call(Bench.callID, .query), user: user, device: device)?.state
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
      #expect(
        state?.reason == .moved || state?.reason == .answeredElsewhere, "\(place): \(device)")
    }
    #expect(bench.ends.isEmpty, "\(place)")
  }

  /// Both sides signal: each gets what the other one's device says.
  private func exchange(_ bench: inout Bench, _ holders: [String: String], _ place: String) {
    // Both are there.
    let (alice, bob) = (holders["alice"] ?? "", holders["bob"] ?? "")
    bench.say(.call(Bench.callID, .resume), user: "alice", device: alice)
    bench.say(.attach(Attach(attachedAt: bench.now)), device: bob)
    _ = bench.take()
    for (number, user) in ["alice", "bob"].enumerated() {
      let device = holders[user] ?? ""
      let body = Command.Body.call(Bench.callID, .signal(.information, body: "of \(user)"))
      bench.say(body, user: user, device: device, number: UInt64(10_000 + number))
    }
    for (user, other) in [("alice", "bob"), ("bob", "alice")] {
      let signals = bench.signals(holders[user] ?? "")
      #expect(signals.map(\.body) == ["of \(other)"], "\(place): \(user)")
    }
  }
}
