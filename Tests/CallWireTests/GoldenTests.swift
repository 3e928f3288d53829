import CallCore
import CallWire
import Foundation
import Testing

/// A value that was written in a released form is read for ever. The bytes are in Tests/Fixtures, whose README tells
/// how new ones are added.
@Suite(.serialized) struct GoldenTests {
  static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../Fixtures").standardizedFileURL

  /// Every file of every format, as `<format>/<name>`.
  static let files: [String] = {
    let names = FileManager.default.enumerator(atPath: folder.path())
    return (names?.allObjects as? [String] ?? []).filter { $0.hasSuffix(".hex") }
      .map { String($0.dropLast(4)) }.sorted()
  }()

  static func bytes(_ file: String) throws -> [UInt8] {
    let text = try String(contentsOf: folder.appending(path: file + ".hex"), encoding: .utf8)
    let digits = Array(text.filter { !$0.isWhitespace })
    return try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(digits[$0...$0 + 1]), radix: 16))
    }
  }

  @Test func everyValueHasBytes() throws {
    let writes = ProcessInfo.processInfo.environment["CALLMESH_WRITE_FIXTURES"] == "1"
    for value in GoldenValues.all where !Self.files.contains(where: { Self.name($0) == value.name })
    {
      guard writes else {
        Issue.record("no bytes are kept for \(value.name): Tests/Fixtures/README.md tells how")
        continue
      }
      try write(value)
    }
  }

  @Test(arguments: files) func bytesAreRead(file: String) throws {
    let value = try #require(
      GoldenValues.all.first { $0.name == Self.name(file) }, "no value for \(file)")
    #expect(try value.decodesTo(Self.bytes(file)), "\(file) is read as something else")
  }

  /// A value that is kept as the latest form of a kind must be written so: nodes of the version before read it, too.
  @Test func bytesAreWritten() throws {
    for value in GoldenValues.all where value.isWritten {
      let file = try #require(Self.files.last { Self.name($0) == value.name })
      #expect(try value.encoded == Self.bytes(file), "\(value.name) is written differently")
    }
  }

  static func name(_ file: String) -> String {
    String(file.split(separator: "/").last ?? "")
  }

  /// Never over a file that is there.
  private func write(_ value: GoldenValue) throws {
    let folder = Self.folder.appending(path: "\(ClusterCodec.format)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let digits = value.encoded.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
    var text = ""
    for line in stride(from: 0, to: digits.count, by: 48) {
      text += digits[line..<min(line + 48, digits.count)].joined() + "\n"
    }
    try Data(text.utf8).write(
      to: folder.appending(path: value.name + ".hex"), options: .withoutOverwriting)
  }

  // MARK: Later versions

  /// A version that does not know all of a shard's history must not continue it.
  @Test func formsAndEntriesOfLaterVersionsAreRefused() throws {
    var record = try Self.bytes("1/fence")
    #expect(record[0] == 0x08 && record[1] == 1)
    record[1] = UInt8(ClusterCodec.format) + 1
    let error = #expect(throws: WireError.self) { try ClusterCodec.journalRecord(record) }
    #expect(error?.message.contains("a newer version") == true)
    record[1] = 0
    #expect(throws: WireError.self) { try ClusterCodec.journalRecord(record) }
    #expect(throws: WireError.self) { try ClusterCodec.journalRecord([]) }

    // An entry whose change is field 90.
    let entry = MalformedFrameTests.field(1, Array(1...16)) + [0xd2, 0x05, 0x00]
    let later = [0x08, 1] + MalformedFrameTests.field(6, entry)
    let unknown = #expect(throws: WireError.self) { try ClusterCodec.journalRecord(later) }
    #expect(unknown?.message == "journal record: The change is missing or unknown.")
  }

  /// A field that a later version added, and that need not be understood, hides nothing.
  @Test func fieldsOfLaterVersionsAreNotMinded() throws {
    let addition = [0xd2, 0x05, 5] + Array("later".utf8)
    for file in Self.files {
      let value = try #require(GoldenValues.all.first { $0.name == Self.name(file) })
      #expect(try value.decodesTo(Self.bytes(file) + addition), "\(file)")
    }
  }

  @Test func messagesOfLaterFormatsAreRefused() {
    // Field numbers of `format` in: CommandBatch, EdgeBatch, Heartbeat, Lease, AnnounceRequest, Done.
    func later(_ field: UInt8) -> [UInt8] { [field << 3, UInt8(ClusterCodec.format) + 1] }
    #expect(throws: WireError.self) { try ClusterCodec.commandBatch(later(3)) }
    #expect(throws: WireError.self) { try ClusterCodec.edgeBatch(later(2)) }
    #expect(throws: WireError.self) { try ClusterCodec.heartbeat([0x10, 1] + later(7)) }
    #expect(throws: WireError.self) { try ClusterCodec.lease(later(5)) }
    #expect(throws: WireError.self) { try ClusterCodec.announceRequest(later(3)) }
    #expect(throws: WireError.self) { try ClusterCodec.announceDone(later(4)) }
    #expect(throws: WireError.self) { try ClusterCodec.clusterRecord(later(1)) }
    #expect(throws: WireError.self) { try ClusterCodec.callRecords(later(1)) }
    #expect(throws: WireError.self) { try ClusterCodec.pushKeys([0x08, 9]) }
    #expect(throws: WireError.self) { try ClusterCodec.pushJob([]) }
    // A gateway of before must leave what it does not understand to others.
    var job = ClusterCodec.encode(GoldenValues.jobs[0].value)
    #expect(job[0] == 0x08 && job[1] <= UInt8(ClusterCodec.format))
    job[1] = UInt8(ClusterCodec.format) + 1
    let error = #expect(throws: WireError.self) { try ClusterCodec.pushJob(job) }
    #expect(error?.message.contains("a newer version") == true)
  }

  /// If a command of a batch cannot be read, it is refused alone.
  @Test func aCommandOfALaterVersionIsRefusedAlone() throws {
    let command = GoldenValues.commands[0].value
    var bytes = ClusterCodec.encode(CommandBatch(edge: 7, commands: [command, command]))
    // Session 9, request 12, and a body of field 90.
    let later: [UInt8] = [0x08, 9, 0x10, 12, 0xd2, 0x05, 0x00]
    bytes += MalformedFrameTests.field(2, later)
    let batch = try ClusterCodec.commandBatch(bytes)
    #expect(batch.commands.count == 2)
    #expect(
      batch.unreadable == [
        CommandBatch.Unreadable(
          session: SessionRef(edge: 7, number: 9), request: 12,
          reason: "The command is missing or unknown.")
      ])
  }

  @Test func anItemOfALaterVersionIsDroppedAlone() throws {
    let item = GoldenValues.items[0].value
    let later: [UInt8] = [0x08, 9, 0xd2, 0x05, 0x00]
    let bytes =
      ClusterCodec.encode(EdgeBatch(items: [item])) + MalformedFrameTests.field(1, later)
    let batch = try ClusterCodec.edgeBatch(bytes)
    #expect(batch.items == [item])
    #expect(batch.unreadable == 1)
  }
}
