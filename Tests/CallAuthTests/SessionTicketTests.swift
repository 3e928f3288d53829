import CallAuth
import Testing

@Suite struct SessionTicketTests {
  private let facts = SessionTicketKeys.Facts(
    app: "demo", user: "ann", device: "phone", edge: 42, expires: 2_000_000_000,
    issued: 1_900_000_000, key: 7)

  private func keys(_ seeds: UInt8...) throws -> SessionTicketKeys {
    try SessionTicketKeys(seeds.map { [UInt8](repeating: $0, count: 32) })
  }

  @Test func aTicketIsGoodForWhatItSaysAndNothingElse() throws {
    let keys = try keys(1)
    let code = keys.code(of: facts)
    #expect(keys.accepts(code, of: facts))
    let changes: [(inout SessionTicketKeys.Facts) -> Void] = [
      { $0.app = "demo2" }, { $0.user = "bob" }, { $0.device = "tablet" }, { $0.edge = 43 },
      { $0.expires += 1 }, { $0.issued -= 1 },
      { $0.key = 8 },
      // The same bytes, cut in another place.
      { ($0.app, $0.user) = ("demoa", "nn") }, { ($0.user, $0.device) = ("annp", "hone") },
    ]
    for change in changes {
      var other = facts
      change(&other)
      #expect(!keys.accepts(code, of: other), "\(other)")
    }
    for bit in 0..<64 {
      var other = code
      other.low ^= 1 << UInt64(bit)
      #expect(!keys.accepts(other, of: facts))
      other = code
      other.high ^= 1 << UInt64(bit)
      #expect(!keys.accepts(other, of: facts))
    }
  }

  @Test func aNewKeyInFrontSignsAndTheOldOneStillCounts() throws {
    let old = try keys(1).code(of: facts)
    let both = try keys(2, 1)
    #expect(both.accepts(old, of: facts))
    #expect(both.code(of: facts) != old)
    #expect(try !keys(2).accepts(old, of: facts))
  }

  @Test func keysThatCannotBeUsed() {
    #expect(throws: PushCapabilityKeysError.self) { try SessionTicketKeys([]) }
    #expect(throws: PushCapabilityKeysError.self) {
      try SessionTicketKeys([[UInt8](repeating: 1, count: 31)])
    }
  }

  @Test func nothingPrintsAKey() throws {
    let keys = try SessionTicketKeys([Array("0123456789abcdefghijklmnopqrstuv".utf8)])
    var dumped = ""
    dump(TicketKeyring(keys), to: &dumped)
    for text in ["\(keys)", String(reflecting: keys), dumped] {
      #expect(!text.contains("SymmetricKey") && !text.contains("0123456789"))
    }
  }

  @Test func anEdgesNumberFollowsFromItsSecret() {
    let number = EdgeNumber.of(secret: 1, 2)
    #expect(number == EdgeNumber.of(secret: 1, 2))
    #expect(number != EdgeNumber.of(secret: 2, 1))
    #expect(number != EdgeNumber.of(secret: 1, 3))
  }
}
