import CallClient
import CallCore
import CallWire
import Testing

/// A device moves to the edge that the cluster names as nearer, when it suits it.
@Suite struct ClientNearerTests {
  private static let list = ["wss://a", "wss://b"]
  private let call = CallID(high: 1, low: 2)

  private func device(
    _ edges: [String] = list, seed: UInt64 = 1, followsNearer: Bool = true
  ) -> Device {
    var device = Device(edges: edges)
    var configuration = device.machine.configuration
    configuration.followsNearer = followsNearer
    device.machine = ClientMachine(configuration)
    device.turn.random = SplitMix64(seed: seed)
    return device
  }

  private func info(_ nearer: String) -> AttachedInfo {
    var info = AttachedInfo.sample
    info.nearer = nearer
    return info
  }

  private func attach(_ device: inout Device, nearer: String) {
    device.start()
    device.open()
    for frame in device.take().frames {
      device.hear(.reply(id: frame.id, .attached(info(nearer))))
    }
    _ = device.take()
  }

  private func hear(_ device: inout Device, nearer: String) {
    device.hear(.notice(Notice(kind: .nearer, message: "", nearer: nearer)))
    _ = device.take()
  }

  /// Lets time pass, in which the edge sends pings, until the device does something.
  private func pass(_ device: inout Device, seconds: Int64) -> [ClientMachine.Action] {
    _ = device.take()
    for _ in 0..<seconds where device.turn.actions.isEmpty {
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(1))
    }
    return device.take()
  }

  /// The next connection opens, and its attach is answered.
  private func arrive(_ device: inout Device, nearer: String = "") {
    device.machine.opened(on: .next, &device.turn)
    for case .sendNext(let frame) in device.take() {
      device.machine.received(
        .reply(id: frame.id, .attached(info(nearer))), on: .next, &device.turn)
    }
  }

  // MARK: Whether

  @Test func aDeviceThatDoesNotWantToAsksForNothingAndStays() {
    var device = device(followsNearer: false)
    device.start()
    device.open()
    let frame = device.take().frames[0]
    guard case .attach(let request) = frame.command else {
      Issue.record("no attach")
      return
    }
    #expect(!request.wantsNearer)
    device.hear(.reply(id: frame.id, .attached(info("wss://b"))))
    hear(&device, nearer: "wss://b")
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  @Test func itMovesToAnEdgeOfItsListAndStaysAttached() {
    var device = device()
    attach(&device, nearer: "wss://b:443")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
    arrive(&device)
    let actions = device.take()
    #expect(actions.contains(.switchOver))
    #expect(device.machine.isAttached && !device.machine.isMoving)
    #expect(device.machine.nearerMoves == 1)
    #expect(pass(&device, seconds: 1000).isEmpty)
  }

  @Test func itMovesToAnEdgeThatIsNotInItsListAndFallsBackToTheList() {
    var device = device()
    attach(&device, nearer: "wss://c/x")
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
  ])
  func itDoesNotGoThere(_ address: String) {
    var device = device()
    attach(&device, nearer: address)
    hear(&device, nearer: address)
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  @Test func withoutTLSInItsListItNeedsNone() {
    var device = device(["ws://a"])
    attach(&device, nearer: "ws://c")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
  }

  @Test func whereItIsAlreadyIsNotNearer() {
    var device = device()
    attach(&device, nearer: "wss://a:443/v1/connect")
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  // MARK: When

  @Test func devicesSpreadTheirMoves() {
    var moved = [0, 0, 0]
    for seed in 0..<60 as Range<UInt64> {
      var device = device(seed: seed)
      attach(&device, nearer: "wss://b")
      for third in 0..<3 where !pass(&device, seconds: 20).isEmpty { moved[third] += 1 }
    }
    #expect(moved.reduce(0, +) >= 57)
    #expect(moved.allSatisfy { $0 > 5 }, "\(moved)")
  }

  @Test func notInACall() {
    var device = device()
    attach(&device, nearer: "wss://b")
    let caller = Party(user: "you", device: "p")
    device.hear(
      call, 1, .invite(Invite(caller: caller, deadline: device.now + .seconds(30))))
    #expect(pass(&device, seconds: 300).isEmpty)
    device.hear(call, 2, .stop(Stop(reason: .cancelled)))
    #expect(pass(&device, seconds: 62).contains(.connectNext(edge: 1)))
  }

  @Test func notWhileACommandWaits() {
    var device = device()
    attach(&device, nearer: "wss://b")
    let request = device.say(.place(CallAddress(callee: "you", call: call), .init(call: call)))!
    device.hear(
      .reply(id: request, .call(CallState(call: call, callee: "you", phase: .placed, version: 1))))
    #expect(pass(&device, seconds: 300).isEmpty)
  }

  @Test func aCallThatBeginsMeanwhilePutsItOff() {
    var device = device()
    attach(&device, nearer: "wss://b")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 1)])
    _ = device.say(.place(CallAddress(callee: "you", call: call), .init(call: call)))
    #expect(device.take().first == .closeNext)
    #expect(device.machine.isAttached)
  }

  @Test func whatTheEdgeTakesBackIsOver() {
    var device = device()
    attach(&device, nearer: "wss://b")
    hear(&device, nearer: "")
    #expect(pass(&device, seconds: 100).isEmpty)
  }

  // MARK: How often

  @Test func twoEdgesThatNameEachOtherMoveItOnceInAPause() {
    var device = device()
    attach(&device, nearer: "wss://b")
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
    var device = device()
    attach(&device, nearer: "wss://c")
    #expect(pass(&device, seconds: 61) == [.connectNext(edge: 2)])
    device.machine.closed(on: .next, &device.turn)
    #expect(device.machine.isAttached && !device.machine.isMoving)
    hear(&device, nearer: "wss://c")
    #expect(pass(&device, seconds: 530).isEmpty)
    #expect(pass(&device, seconds: 130) == [.connectNext(edge: 2)])
  }

  // MARK: Beside a drain

  @Test func anEdgeThatGoesAwayComesFirst() {
    var device = device()
    attach(&device, nearer: "wss://c")
    device.hear(.notice(Notice(kind: .goAway, message: "", retryAfterMilliseconds: 0)))
    device.pass(.milliseconds(1))
    #expect(device.take().contains(.connectNext(edge: 1)))
  }

  @Test func aNearerEdgeThatGoesAwayIsLeftForTheList() {
    var device = device()
    attach(&device, nearer: "wss://c")
    _ = pass(&device, seconds: 61)
    arrive(&device)
    _ = device.take()
    device.hear(.notice(Notice(kind: .goAway, message: "", retryAfterMilliseconds: 0)))
    device.pass(.milliseconds(1))
    #expect(device.take().contains(.connectNext(edge: 0)))
  }
}
