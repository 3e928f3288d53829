import CallCore
import CallWire
import Testing

/// What a shard wrote in a released form is read for ever, and written the same way.
@Suite struct GoldenTests {
  static func bytes(_ name: String) throws -> [UInt8] {
    let text = try #require(GoldenBytes.all[name], "no bytes are kept for \(name)")
    let digits = Array(text.filter { !$0.isWhitespace })
    return try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(digits[$0...$0 + 1]), radix: 16))
    }
  }

  @Test(arguments: GoldenValues.records.map(\.name)) func records(name: String) throws {
    let record = try #require(GoldenValues.records.first { $0.name == name }).record
    #expect(try ClusterCodec.journalRecord(Self.bytes(name)) == record)
    #expect(try ClusterCodec.encode(record) == Self.bytes(name))
  }

  @Test func checkpoint() throws {
    let bytes = try Self.bytes("checkpoint")
    #expect(try ClusterCodec.checkpoint(bytes) == GoldenValues.checkpoint)
    #expect(ClusterCodec.encode(GoldenValues.checkpoint) == bytes)
  }

  @Test func registrations() throws {
    for (name, value) in [
      ("registration", GoldenValues.registration),
      ("bareRegistration", GoldenValues.bareRegistration),
    ] {
      let bytes = try Self.bytes(name)
      #expect(try ClusterCodec.registration(bytes) == value)
      #expect(ClusterCodec.encode(value) == bytes)
    }
  }

  @Test func lease() throws {
    #expect(try ClusterCodec.lease(Self.bytes("lease")) == GoldenValues.lease)
  }

  /// A version that does not know all of a shard's history must not continue it.
  @Test func formsAndEntriesOfLaterVersionsAreRefused() throws {
    var record = try Self.bytes("fence")
    #expect(record[0] == 0x08 && record[1] == 1)
    record[1] = 2
    #expect(throws: WireError.self) { try ClusterCodec.journalRecord(record) }
    record[1] = 0
    #expect(throws: WireError.self) { try ClusterCodec.journalRecord(record) }
    #expect(throws: WireError.self) { try ClusterCodec.journalRecord([]) }

    // An entry whose change is field 90.
    let entry = MalformedFrameTests.field(1, Array(1...16)) + [0xd2, 0x05, 0x00]
    let later = [0x08, 1] + MalformedFrameTests.field(6, entry)
    let error = #expect(throws: WireError.self) { try ClusterCodec.journalRecord(later) }
    #expect(error?.message == "journal record: The change is missing or unknown.")
  }
}
