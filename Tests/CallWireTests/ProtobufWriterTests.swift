import CCallProto
import CProtobufC
import CallWire
import Foundation
import Testing

/// Our writer writes what protobuf-c writes.
@Suite struct ProtobufWriterTests {
  typealias Descriptor = StructGenerator.Descriptor

  @Test func everyMessageIsCompared() throws {
    let folder = GoldenTests.folder.appending(path: "../../Proto/callmesh/v1")
    let count = try ["device", "cluster", "journal", "records"].map { name in
      try String(contentsOf: folder.appending(path: "\(name).proto"), encoding: .utf8)
        .split(separator: "\n").count { $0.hasPrefix("message ") }
    }
    #expect(StructGenerator.descriptors().count == count.reduce(0, +))
  }

  @Test func emptyMessages() throws {
    let generator = StructGenerator(seed: 1)
    for message in StructGenerator.descriptors() { try compare(generator.empty(message), message) }
  }

  @Test func eachFieldAlone() throws {
    for seed in 0..<40 as Range<UInt64> {
      let generator = StructGenerator(seed: seed)
      for message in StructGenerator.descriptors() {
        for index in 0..<Int(message.pointee.n_fields) {
          let one = generator.empty(message)
          generator.set(message.pointee.fields[index], of: one, share: seed % 2 == 0 ? 0 : 60)
          try compare(one, message)
        }
      }
    }
  }

  @Test(arguments: [10, 50, 100]) func manyFields(share: Int) throws {
    for seed in 0..<60 as Range<UInt64> {
      let generator = StructGenerator(seed: seed)
      for message in StructGenerator.descriptors() {
        try compare(generator.message(message, fields: share), message)
      }
    }
  }

  private func compare(_ message: UnsafeMutableRawPointer, _ descriptor: Descriptor) throws {
    let expected = Self.bytes(message.assumingMemoryBound(to: ProtobufCMessage.self))
    // Thousands of bytes in a failed expectation help nobody.
    let isSame = ProtobufWriter.bytes(of: message) == expected
    try #require(isSame, "\(String(cString: descriptor.pointee.name)), \(expected.count) bytes")
  }

  /// protobuf-c's.
  static func bytes(_ message: UnsafePointer<ProtobufCMessage>) -> [UInt8] {
    let size = protobuf_c_message_get_packed_size(message)
    return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = size == 0 ? 0 : protobuf_c_message_pack(message, buffer.baseAddress)
    }
  }
}
