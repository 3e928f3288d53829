import CallClient
import CallCore
import CallWire
import Testing

/// A device moves to the edge that the cluster names as nearer, when it suits it.
@Suite struct ClientNearerTests {
  private static let list = ["wss://a", "wss://b"]
  private let call = CallID(high: 1, low: 2)

  private func device(_ edges: [String] = list, seed: UInt64 = 1) -> Device {
    var device = Device(edges: edges) { $0.followsNearer = true }
    device.turn.random = SplitMix64(seed: seed)
    return device
  }

  private func info(_ nearer: String) -> AttachedInfo {
    var info = AttachedInfo.sample
    info.nearer = nearer
    return info
  }

  /// A device whose edge named another one in its answer to the attach.
  private func attached(
    _ edges: [String] = list, seed: UInt64 = 1, nearer: String = "wss://b"
  ) -> Device {
    var device = device(edges, seed: seed)
    device.attach(info(nearer))
    return device
  }

  private func hear(_ device: inout Device, nearer: String) {
    device.hear(.notice(Notice(kind: .nearer, message: "", nearer: nearer)))
    _ = device.take()
  }

  /// Lets time pass, in which the edge sends pings, until the device does something.
  private func pass(_ device: inout Device, seconds: Int64) -> [ClientMachine.Action] {
    _ = device.take()
    for _ in 0..<seconds where device.turn.actions.isEmpty { device.passAlive(.seconds(1)) }
    return device.take()
  }

  /// The next connection opens, and its attach is answered.
  private func arrive(_ device: inout Device, nearer: String = "") {
    device.hearNext(device.openNext()?.id, .attached(info(nearer)))
  }

  private func goAway(_ device: inout Device) -> [ClientMachine.Action] {
    device.hear(.notice(Notice(kind: .goAway, message: "", retryAfterMilliseconds: 0)))
    device.pass(.milliseconds(1))
    return device.take()
  }

  // MARK: Whether

  @Test func aDeviceThatDoesNotWantToAsksForNothingAndStays() {
    var device = Device(edges: Self.list)
    device.start()
    device.open()
    let frame = device.take().frames[0]
    guard case .attach(let request) = frame.command else {
      Issue.record("no attach")
      return
    }
    #expect(!request.wantsNearer)
    device.reply(frame.id, .attached(info("wss://b")))
    hear(&device, nearer: "wss://b")
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  @Test func itMovesToAnEdgeOfItsListAndStaysAttached() {
    var device = attached(nearer: "wss://b:443")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
    arrive(&device)
    let actions = device.take()
    #expect(actions.contains(.switchOver))
    #expect(device.machine.isAttached && !device.machine.isMoving)
    #expect(device.machine.nearerMoves == 1)
    #expect(pass(&device, seconds: 1000).isEmpty)
  }

  @Test func itMovesToAnEdgeThatIsNotInItsListAndFallsBackToTheList() {
    var device = attached(nearer: "wss://c/x")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 2)])
    #expect(device.machine.address(ofEdge: 2) == "wss://c/x")
    arrive(&device)
    _ = device.take()
    device.close()
    device.pass(.seconds(1))
    #expect(device.take().contains(.connect(edge: 0)), "the one that it had left")
  }

  @Test(arguments: [
    "ws://c", "", "c", "https://c", "wss://c d", "wss://c\r\nHost: d", "wss://c@d", "wss://c:0",
    "wss://" + String(repeating: "c", count: 300),
    // Where it is already.
    "wss://a:443/v1/connect",
  ])
  func itDoesNotGoThere(_ address: String) {
    var device = attached(nearer: address)
    hear(&device, nearer: address)
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  @Test func withoutTLSInItsListItNeedsNone() {
    var device = attached(["ws://a"], nearer: "ws://c")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
  }

  // MARK: When

  @Test func devicesSpreadTheirMoves() {
    var moved = [0, 0, 0]
    for seed in 0..<60 as Range<UInt64> {
      var device = attached(seed: seed)
      for third in 0..<3 where !pass(&device, seconds: 20).isEmpty { moved[third] += 1 }
    }
    #expect(moved.reduce(0, +) >= 57)
    #expect(moved.allSatisfy { $0 > 5 }, "\(moved)")
  }

  @Test func notInACall() {
    var device = attached()
    device.ring(call, 1)
    #expect(pass(&device, seconds: 300).isEmpty)
    device.hear(call, 2, .stop(Stop(reason: .cancelled)))
    #expect(pass(&device, seconds: 62).contains(.connectNext(edge: 1)))
  }

  @Test func notWhileACommandWaits() {
    var device = attached()
    device.havePlaced(CallAddress(callee: "you", call: call))
    #expect(pass(&device, seconds: 300).isEmpty)
  }

  @Test func aCallThatBeginsMeanwhilePutsItOff() {
    var device = attached()
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
    device.place(CallAddress(callee: "you", call: call))
    #expect(device.take().first == .closeNext)
    #expect(device.machine.isAttached)
  }

  @Test func whatTheEdgeTakesBackIsOver() {
    var device = attached()
    hear(&device, nearer: "")
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  // MARK: How often

  @Test func twoEdgesThatNameEachOtherMoveItOnceInAPause() {
    var device = attached()
    var moves = 0
    var address = "wss://a"
    for _ in 0..<3600 {
      for case .connectNext in pass(&device, seconds: 1) {
        moves += 1
        arrive(&device, nearer: address)
        address = address == "wss://a" ? "wss://b" : "wss://a"
        hear(&device, nearer: address == "wss://a" ? "wss://b" : "wss://a")
      }
    }
    #expect((4...7).contains(moves), "\(moves)")
  }

  @Test func anEdgeThatCannotBeReachedIsLeftAloneForAPause() {
    var device = attached(nearer: "wss://c")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 2)])
    device.machine.closed(on: .next, &device.turn)
    #expect(device.machine.isAttached && !device.machine.isMoving)
    hear(&device, nearer: "wss://c")
    #expect(pass(&device, seconds: 530).isEmpty)
    #expect(pass(&device, seconds: 130) == [.connectNext(edge: 2)])
  }

  // MARK: Beside a drain

  @Test func anEdgeThatGoesAwayComesFirst() {
    var device = attached(nearer: "wss://c")
    #expect(goAway(&device).contains(.connectNext(edge: 1)))
  }

  @Test func aNearerEdgeThatGoesAwayIsLeftForTheList() {
    var device = attached(nearer: "wss://c")
    _ = pass(&device, seconds: 61)
    arrive(&device)
    _ = device.take()
    #expect(goAway(&device).contains(.connectNext(edge: 0)))
  }
}
