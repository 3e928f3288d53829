import CallCore
import Testing

/// R26 in random orders: both sides transfer, pull and take transfers back, devices answer and decline, and the call's shard
/// gets new owners.
@Suite struct TransferRandomTests {
  private struct Device: Hashable, CustomStringConvertible {
    var user: String
    var id: String
    var description: String { "\(user)/\(id)" }
    var party: Party { Party(user: user, device: DeviceID(id)) }
  }

  private static let devices = [
    ("alice", "alice1"), ("alice", "1"), ("bob", "b1"), ("bob", "b2"), ("carol", "1"),
    ("dave", "1"), ("dave", "2"),
  ].map { Device(user: $0.0, id: $0.1) }

  /// The call, and who has its sides.
  private struct Run {
    var bench: DivertingBench
    var caller = devices[0]
    var callee = devices[2]
    /// Which side is transferred, and to whom.
    var pending: (ofCaller: Bool, to: String)?

    init() {
      bench = TransferTests.talking()
      for (user, device) in [("alice", "1"), ("carol", "1"), ("dave", "1"), ("dave", "2")] {
        bench.attach(user, device)
      }
    }

    @discardableResult
    mutating func say(_ verb: CallVerb, _ device: Device, number: UInt64? = nil) -> Reply? {
      let reply = bench.owner.say(
        verb, device.id, of: device.user, session: session(device), number: number)
      bench.pump()
      return reply
    }

    func session(_ device: Device) -> SessionRef {
      device.user == "bob" || device.id == "alice1"
        ? Bench.session(device.id) : DivertingBench.session(device.user, device.id)
    }

    mutating func newOwner(_ isCheckpoint: Bool, epoch: UInt64) {
      var owner = bench.owner.successor(byCheckpoint: isCheckpoint, epoch: epoch)
      for device in ["b1", "b2"] { owner.announce(device) }
      let (session, caller) = (session(caller), caller)
      owner.say(.resume, caller.id, of: caller.user, session: session, number: 0)
      owner.begin()
      bench.owner = owner
      bench.pump()
      bench.pass(.milliseconds(10))
    }

    func holder(_ ofCaller: Bool) -> Device { ofCaller ? caller : callee }

    mutating func move(_ ofCaller: Bool, to device: Device) {
      if ofCaller { caller = device } else { callee = device }
    }
  }

  @Test("each side has one device, and both hear each other", arguments: 0..<300)
  func oneHolder(seed: Int) {
    var random = RandomRunTests.Random(state: UInt64(seed) + 1)
    var run = Run()
    var epoch: UInt64 = 1
    for step in 0..<30 {
      let place = "seed \(seed), step \(step)"
      let device = Self.devices[random.below(Self.devices.count)]
      switch random.below(12) {
      case 0, 1, 2: transfer(&run, random.below(2) == 0, to: device.user, place)
      case 3, 4, 5: answer(&run, device, place)
      case 6:
        run.say(.decline(random.below(2) == 0 ? .everywhere : .here), device)
      case 7: run.say(.cancelTransfer, run.holder(random.below(2) == 0))
      case 8: pull(&run, device, random.below(2) == 0)
      case 9: run.bench.acknowledgeAll()
      case 10: run.bench.pass(.milliseconds(Int64(random.below(12_000))))
      default:
        epoch += 1
        run.newOwner(random.below(2) == 0, epoch: epoch)
      }
      if run.bench.transferIsOver { run.pending = nil }
      judge(&run, place)
      guard run.bench.owner.ends.isEmpty else { return }
    }
    exchange(&run, "seed \(seed)")
  }

  private func transfer(_ run: inout Run, _ ofCaller: Bool, to user: String, _ place: String) {
    let reply = run.say(.handOver(to: user), run.holder(ofCaller))
    let isParty = user == run.caller.user || user == run.callee.user
    if isParty { #expect(reply?.error == .wrongState, "\(place)") }
    guard reply?.error == nil, run.pending == nil else { return }
    run.pending = (ofCaller, user)
  }

  private func answer(_ run: inout Run, _ device: Device, _ place: String) {
    let had = device == run.caller || device == run.callee
    let reply = run.say(.answer(description: "offer"), device)
    guard reply?.won == true, !had else { return }
    guard let pending = run.pending else {
      Issue.record("\(place): \(device) took a side that nobody transfers")
      return
    }
    #expect(device.user == pending.to, "\(place)")
    run.move(pending.ofCaller, to: device)
    run.pending = nil
  }

  private func pull(_ run: inout Run, _ device: Device, _ ofCaller: Bool) {
    let holder = run.holder(ofCaller)
    guard holder.user == device.user, run.holder(!ofCaller) != device else { return }
    let request = PullRequest(from: DeviceID(holder.id), description: "offer")
    if run.say(.pull(request), device)?.won == true { run.move(ofCaller, to: device) }
  }

  private func judge(_ run: inout Run, _ place: String) {
    guard run.bench.owner.ends.isEmpty else { return }
    for device in Self.devices {
      let state = run.say(.query, device)?.state
      if device == run.caller || device == run.callee {
        #expect(state?.phase == .answered, "\(place): \(device) has a side")
      } else if device.user != run.caller.user {
        // A caller's other device that had no part sees the call as a whole.
        #expect(state?.phase != .answered, "\(place): \(device) has none")
      }
      if state?.phase == .ringing {
        #expect(run.pending?.to == device.user, "\(place): \(device) rings")
      }
    }
  }

  /// Both sides signal: each gets what the other one says.
  private func exchange(_ run: inout Run, _ place: String) {
    run.bench.pass(.seconds(6))
    guard run.bench.owner.ends.isEmpty else { return }
    run.say(.resume, run.caller)

    for (number, device) in [run.caller, run.callee].enumerated() {
      let body = "of \(device)"
      run.say(.signal(.information, body: body), device, number: UInt64(10_000 + number))
    }
    for (device, other) in [(run.caller, run.callee), (run.callee, run.caller)] {
      let session = run.session(device)
      let signals = run.bench.events(to: session).signals.map(\.body)
      #expect(signals.contains("of \(other)"), "\(place): \(device)")
    }
  }
}

extension DivertingBench {
  /// Whether the last transfer came to nothing.
  fileprivate var transferIsOver: Bool {
    let last = owner.journal.last {
      switch $0.change {
      case .diverted(let facts): facts.reason == .transferred
      case .transferEnded: true
      default: false
      }
    }
    if case .transferEnded = last?.change { return true }
    return false
  }
}
