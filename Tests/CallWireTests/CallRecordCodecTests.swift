import CallCore
import CallWire
import Testing

/// Records for other programs: their JSON, and what readers make of later versions.
@Suite struct CallRecordCodecTests {
  /// docs/operations.md shows it.
  @Test func json() {
    let text = String(decoding: ClusterCodec.json(GoldenValues.callRecords[0]), as: UTF8.self)
    #expect(
      text == #"{"call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","app":"demo","callee":"bob","#
        + #""caller":{"user":"ann","device":"ann-phone","name":"Ann's phone"},"video":true,"#
        + #""placedAtUs":1790000000123456,"#
        + #""answeredBy":{"user":"bob","device":"bob-phone","name":"Bob's phone"},"#
        + #""answeredAtUs":1790000030123456,"merged":"6ba7b811-9dad-11d1-80b4-00c04fd430c8","#
        + #""endedAtUs":1790000030123456,"reason":"hungUp","#
        + #""by":{"user":"ann","device":"ann-phone","name":"Ann's phone"},"#
        + #""legs":[{"device":{"user":"bob","device":"bob-phone","name":"Bob's phone"},"fate":"won","#
        + #""pushedAtUs":1790000000123456,"invitedAtUs":1790000030123456,"#
        + #""deliveredAtUs":1790000030123456,"alertedAtUs":1790000030123456,"#
        + #""endedAtUs":1790000030123456},"#
        + #"{"device":{"user":"bob","device":"bob-tablet"},"fate":"stopped","#
        + #""endedAtUs":1790000030123456}],"#
        + #""events":[{"kind":"placed","caller":true},"#
        + #"{"kind":"pushRejected","afterUs":70000,"leg":1,"purpose":"ring","reason":"BadTopic"},"#
        + #"{"kind":"takenOver","afterUs":5000000},"#
        + #"{"kind":"pushed","afterUs":4294967295,"device":"tv","purpose":"missedNotice"}],"#
        + #""eventsDropped":3}"#)
  }

  /// The numbers of cases are the same in Swift and in the schema: the JSON names come from there.
  @Test func everyCaseHasItsName() {
    var record = GoldenValues.callRecords[1]
    record.events = CallEventKind.allCases.map { .init($0, offset: 1, who: .call) }
    record.legs = LegFate.allCases.map { .init(party: GoldenValues.phone, fate: $0) }
    let text = String(decoding: ClusterCodec.json(record), as: UTF8.self)
    for kind in CallEventKind.allCases { #expect(text.contains("\"kind\":\"\(kind)\"")) }
    for fate in LegFate.allCases { #expect(text.contains("\"fate\":\"\(fate)\"")) }
    for reason in EndReason.allCases {
      record.end?.reason = reason
      let text = String(decoding: ClusterCodec.json(record), as: UTF8.self)
      #expect(text.contains("\"reason\":\"\(reason)\""))
    }
  }

  /// A later version has further reasons and events. What cannot be read is counted, and the rest is read.
  @Test func laterVersions() throws {
    let records = GoldenValues.callRecords
    var bytes = ClusterCodec.encode(records)
    // A record with a call, a party without texts, and reason 99.
    let later =
      MalformedFrameTests.field(1, Array(1...16)) + MalformedFrameTests.field(4, []) + [0x58, 99]
    bytes += MalformedFrameTests.field(2, later)
    let batch = try ClusterCodec.callRecords(bytes)
    #expect(batch.records == records && batch.unreadable == 1)

    // The same with a reason that is known, and an event of kind 99.
    let event =
      MalformedFrameTests.field(1, Array(1...16)) + MalformedFrameTests.field(4, [])
      + [0x58, 4] + [0x8a, 0x01, 2, 0x08, 99]
    let one = try ClusterCodec.callRecords([0x08, 1] + MalformedFrameTests.field(2, event))
    #expect(one.unreadable == 0 && one.records.first?.eventsDropped == 1)
    #expect(one.records.first?.end?.reason == .unanswered)
  }

  /// Versions without records know the entry as an end, and ignore a second one.
  @Test func theFactIsASecondEndToEarlierVersions() throws {
    let record = JournalRecord(
      epoch: 1, number: 1, writer: "c", at: GoldenValues.at,
      entries: [JournalEntry(call: GoldenValues.call, change: .recorded)])
    var bytes = ClusterCodec.encode(record)
    // Field 15 of the entry, which an earlier version skips.
    let flag = try #require(
      bytes.indices.dropLast().last { bytes[$0] == 0x78 && bytes[$0 + 1] == 1 })
    bytes[flag] = 0x70
    let read = try ClusterCodec.journalRecord(bytes)
    guard case .ended(let facts) = read.entries.first?.change else {
      Issue.record("\(read)")
      return
    }
    #expect(facts.by == nil && facts.survivor == nil)
  }
}
