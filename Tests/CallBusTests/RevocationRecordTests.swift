import CallBus
import Synchronization
import Testing

@Suite struct RevocationRecordTests {
  @Test(arguments: ["ann", "a.b", "zoë", "_61", "*", ">", " ", "\u{212A}im", "a_b-C9"])
  func anEntryNamesItsUser(user: String) throws {
    let revocation = Revocation(app: "de.mo", user: user, atSeconds: 1_800_000_000)
    let entry = KeyValueEntry(key: revocation.key, value: Array("1800000000".utf8), revision: 1)
    let read = try #require(Revocation(entry))
    #expect(read.app == "de.mo" && Array(read.user.utf8) == Array(user.utf8))
    #expect(read.atSeconds == 1_800_000_000)
  }

  @Test(arguments: [
    ("a", "1"), ("a.b.c", "1"), ("a.b_", "1"), ("a.b_6", "1"), ("a._zz", "1"), ("a._61", "1"),
    ("a._ff", "1"), ("a.b", ""), ("a.b", "x"), ("a.b", "1.5"), ("a.b", "99999999999999999999"),
  ])
  func whatIsNoneIsNone(key: String, value: String) {
    #expect(Revocation(KeyValueEntry(key: key, value: Array(value.utf8), revision: 1)) == nil)
  }

  @Test func theLatestStays() async throws {
    let bus = InProcessBus()
    let bucket = try await bus.openBucket("revoked", Revocation.bucket(BucketOptions()))
    for seconds in [100, 200, 150] as [Int64] {
      try await Revocation(app: "demo", user: "ann", atSeconds: seconds).store(in: bucket)
    }
    try await Revocation(app: "demo", user: "bob", atSeconds: 7).store(in: bucket)
    bucket.put("demo.eve", Array("soon".utf8), expecting: nil) { _ in }
    let heard = Mutex<[Revocation]>([])
    let unreadable = Mutex<[String]>([])
    let watch = try await Revocation.follow(
      bucket, unreadable: { key in unreadable.withLock { $0.append(key) } },
      { revocation in heard.withLock { $0.append(revocation) } })
    #expect(
      heard.withLock { $0.sorted { $0.user < $1.user } } == [
        Revocation(app: "demo", user: "ann", atSeconds: 200),
        Revocation(app: "demo", user: "bob", atSeconds: 7),
      ])
    #expect(unreadable.withLock { $0 } == ["demo.eve"])
    watch.cancel()
    await bus.close()
  }
}
