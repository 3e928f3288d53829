import CallCore
import Testing

@Suite struct OutsideAddressTests {
  static let addresses = [
    "+14155550100", "+4930123456", "tel:+14155550100", "sip:bob@example.org",
    "SIPS:bob@example.org",
  ]

  @Test(arguments: addresses) func theyAreRecognised(text: String) {
    #expect(OutsideAddress.isOne(text))
  }

  @Test(arguments: [
    "bob", "+", "+123456", "+1234567890123456", "+1415555O100", "14155550100", "sip:", "sips",
    "siphon",
    "tel", "",
  ])
  func otherNamesAreNot(text: String) { #expect(!OutsideAddress.isOne(text)) }

  @Test(arguments: addresses) func nobodyIsCalledThere(address: String) {
    var bench = Bench()
    let reply = bench.call(address)
    #expect(reply?.error == .noGateway)
    #expect(bench.journal.isEmpty)
  }

  @Test("the app's hook, a group or a rule takes the call first", arguments: [0, 1, 2])
  func somethingElseTakesTheCall(_ which: Int) {
    let address = "+14155550100"
    var bench = Bench()
    switch which {
    case 1: bench.set(CallGroup(users: ["carol"], order: .together, turnSeconds: 10), of: address)
    case 2: bench.set(UserRules(onUnreachable: .init(users: ["carol"])), of: address)
    default: break
    }
    _ = bench.take()
    let reply = bench.call(address, forward: which == 0 ? ["carol"] : [])
    #expect(reply?.state?.phase == .placed)
    let sent = bench.journal.compactMap {
      if case .diverted(let facts) = $0.change { facts } else { nil }
    }
    #expect(sent.map(\.to) == [["carol"]])
    #expect(sent.map(\.reason) == [[.hook, .group, .unreachable][which]])
  }

  @Test func anotherNameIsUnreachable() {
    var bench = Bench()
    #expect(bench.call("nobody")?.state != nil)
  }

  /// An app may use telephone numbers as ids.
  @Test(arguments: addresses) func aUserOfThatNameIsCalled(address: String) {
    var bench = Bench()
    bench.say(.attach(Attach()), user: address, device: "d1", callee: address)
    #expect(bench.call(address)?.state?.phase == .placed)
    #expect(bench.invites("d1").count == 1)
  }
}

extension Bench {
  @discardableResult
  fileprivate mutating func call(_ callee: String, forward: [String] = []) -> Reply? {
    var request = PlaceRequest(call: Self.callID, description: "offer")
    request.forward = forward
    return say(.place(request), user: "alice", device: "alice1", callee: callee)
  }
}
