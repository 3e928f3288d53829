import CCallProto
import CProtobufC
import CallWire
import Testing

/// Our reader reads what protobuf-c reads, and refuses what protobuf-c refuses.
@Suite struct ProtobufReaderTests {
  typealias Descriptor = StructGenerator.Descriptor

  @Test(arguments: [10, 50, 100]) func whatWasWrittenIsRead(share: Int) throws {
    for seed in 0..<40 as Range<UInt64> {
      let generator = StructGenerator(seed: seed)
      for message in StructGenerator.descriptors() {
        let one = generator.message(message, fields: share)
        let bytes = ProtobufWriterTests.bytes(one.assumingMemoryBound(to: ProtobufCMessage.self))
        let isSame = bytes.withUnsafeBytes { ProtobufReader.rewritten($0, as: one) == bytes }
        try #require(isSame, "\(Self.name(message)), \(bytes.count) bytes")
      }
    }
  }

  /// Each message has its own seed, so a new message does not change the bytes of the others. protobuf-c loses the
  /// numbers of a message that comes twice, which protobuf merges: such bytes would fail here, and we would be right.
  @Test func bytesThatWentBad() throws {
    for seed in 0..<100 as Range<UInt64> {
      for message in StructGenerator.descriptors() {
        let own = Self.name(message).utf8.reduce(seed) { $0 &* 31 &+ UInt64($1) }
        let generator = StructGenerator(seed: own)
        var change = Generator(seed: own)
        let one = generator.message(message, fields: 50)
        let bytes = ProtobufWriterTests.bytes(one.assumingMemoryBound(to: ProtobufCMessage.self))
        for _ in 0..<10 where !bytes.isEmpty {
          // Where most of it is text, its beginning is what matters.
          var bad = Array(bytes.prefix(change.chance(50) ? 200 : bytes.count))
          for _ in 0...change.next() % 3 { Self.change(&bad, by: &change) }
          try compare(bad, message, one)
        }
      }
    }
  }

  /// The last one counts, and nothing of the others is left.
  @Test func twoMembersOfAOneof() throws {
    for message in StructGenerator.descriptors() {
      let generator = StructGenerator(seed: UInt64(message.pointee.n_fields))
      let fields = UnsafeBufferPointer(
        start: message.pointee.fields, count: Int(message.pointee.n_fields))
      let members = fields.filter {
        $0.flags & UInt32(PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue) != 0
      }
      let bytes = members.map { member in
        let one = generator.empty(message)
        generator.set(member, of: one, share: 60)
        return ProtobufWriter.bytes(of: one)
      }
      for (first, second) in bytes.flatMap({ first in bytes.map { (first, $0) } }) {
        try compare(first + second, message, generator.empty(message))
      }
    }
  }

  @Test(
    arguments: [

      // Numbers that may be packed: one by one, and both ways.
      [0x30, 5, 0x30, 6], [0x30, 5, 0x32, 2, 6, 7, 0x30, 8], [0x32, 2, 6, 0x80], [0x32, 0],
      [0x00], [0x07, 1], [0x08], [0x0b], [0x0c], [0x0e], [0x0a, 1], [0x0a, 0x80], [0x80, 0x80],
      [0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0], [0xf8, 0xff, 0xff, 0xff, 0x0f, 0], [0x82, 0x00, 0],
      [0x0a, 0x80, 0x80, 0x80, 0x80, 0x00], [0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
      [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], [0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f],
      [0x08] + [UInt8](repeating: 0x80, count: 9) + [1],
      [0x08] + [UInt8](repeating: 0x80, count: 10) + [1], [0xfd, 0x7f, 1, 2, 3],
      [0xf9, 0x7f, 1, 2, 3, 4, 5, 6, 7], [0xfa, 0x7f, 2, 1],
    ] as [[UInt8]]) func oddBytes(bytes: [UInt8]) throws
  {
    let generator = StructGenerator(seed: 1)
    for message in StructGenerator.descriptors() {
      try compare(bytes, message, generator.empty(message))
    }
  }

  private func compare(
    _ bytes: [UInt8], _ descriptor: Descriptor, _ message: UnsafeMutableRawPointer
  ) throws {
    let expected = protobuf_c_message_unpack(descriptor, nil, bytes.count, bytes)
    defer { protobuf_c_message_free_unpacked(expected, nil) }
    let ours = bytes.withUnsafeBytes { ProtobufReader.rewritten($0, as: message) }
    // Unknown fields, which protobuf-c keeps, are not written.
    let isSame = ours == expected.map { ProtobufWriter.bytes(of: $0) }
    // protobuf-c reads a flag out of anything.
    let isFlag = ours == nil && StructGenerator.holdsFlags(descriptor)
    try #require(isSame || isFlag, "\(Self.name(descriptor)): \(bytes.prefix(300))")
  }

  private static func change(_ bytes: inout [UInt8], by generator: inout Generator) {
    guard !bytes.isEmpty else { return }
    let position = Int.random(in: 0..<bytes.count, using: &generator)
    switch Int.random(in: 0..<4, using: &generator) {
    case 0: bytes.removeLast(bytes.count - position)
    case 1: bytes[position] = UInt8(truncatingIfNeeded: generator.next())
    case 2: bytes.insert(0x80, at: position)
    default: bytes[position] ^= 1 << UInt8.random(in: 0...7, using: &generator)
    }
  }

  private static func name(_ message: Descriptor) -> String {
    String(cString: message.pointee.name)
  }
}
