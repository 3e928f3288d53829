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
  fileprivate mutating func call(_ callee: String) -> Reply? {
    say(
      .place(PlaceRequest(call: Self.callID, description: "offer")), user: "alice",
      device: "alice1", callee: callee)
  }
}
