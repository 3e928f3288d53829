import CCallProto
import CProtobufC
import Foundation

/// Fills C structs of any message with drawn values, as protobuf-c describes the message. Owns what it makes.
final class StructGenerator {
  typealias Descriptor = UnsafePointer<ProtobufCMessageDescriptor>

  private var generator: Generator
  private var pieces: [UnsafeMutableRawPointer] = []

  private static let numbers: [UInt64] = [
    0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, .max >> 1,
    1 << 63, .max,
  ]
  private static let textBytes = [0, 1, 15, 16, 0x7f, 0x80, 300, 0x3fff, 0x4000, 65_536]

  init(seed: UInt64) { generator = Generator(seed: seed) }

  deinit { for piece in pieces { piece.deallocate() } }

  /// - Parameter fields: how many of a hundred fields are set.
  func message(_ descriptor: Descriptor, fields share: Int) -> UnsafeMutableRawPointer {
    let message = empty(descriptor)
    for index in 0..<Int(descriptor.pointee.n_fields) where generator.chance(share) {
      // Deep down there is less, else there is no end to it.
      set(descriptor.pointee.fields[index], of: message, share: share * 2 / 3)
    }
    return message
  }

  func empty(_ descriptor: Descriptor) -> UnsafeMutableRawPointer {
    let message = piece(descriptor.pointee.sizeof_message)
    protobuf_c_message_init(descriptor, message)
    return message
  }

  func set(_ field: ProtobufCFieldDescriptor, of message: UnsafeMutableRawPointer, share: Int) {
    let place = message + Int(field.offset)
    let quantifier = message + Int(field.quantifier_offset)
    if field.flags & UInt32(PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue) != 0 {
      quantifier.storeBytes(of: field.id, as: UInt32.self)
    }
    guard field.label == PROTOBUF_C_LABEL_REPEATED else { return fill(field, place, share) }
    let count = [0, 1, 2, 5, 40].randomElement(using: &generator)!
    quantifier.storeBytes(of: count, as: Int.self)
    // protobuf-c asks for the array even where it is empty.
    let stride = field.type == PROTOBUF_C_TYPE_BYTES ? MemoryLayout<ProtobufCBinaryData>.stride : 8
    let elements = piece(stride * max(1, count))
    place.storeBytes(of: elements, as: UnsafeMutableRawPointer.self)
    for index in 0..<count { fill(field, elements + index * stride, share / 4) }
  }

  private func fill(
    _ field: ProtobufCFieldDescriptor, _ place: UnsafeMutableRawPointer, _ share: Int
  ) {
    switch field.type {
    case PROTOBUF_C_TYPE_MESSAGE:
      let nested = message(
        field.descriptor.assumingMemoryBound(to: Descriptor.Pointee.self), fields: share)
      place.storeBytes(of: nested, as: UnsafeMutableRawPointer.self)
    case PROTOBUF_C_TYPE_STRING:
      place.storeBytes(of: text().start, as: UnsafeMutableRawPointer.self)
    case PROTOBUF_C_TYPE_BYTES:
      let (start, count) = text()
      place.storeBytes(
        of: ProtobufCBinaryData(len: count, data: start.assumingMemoryBound(to: UInt8.self)),
        as: ProtobufCBinaryData.self)
    case PROTOBUF_C_TYPE_BOOL:
      place.storeBytes(of: generator.chance(50) ? 1 : 0, as: protobuf_c_boolean.self)
    case PROTOBUF_C_TYPE_ENUM, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_FIXED32:
      place.storeBytes(of: UInt32(truncatingIfNeeded: number()), as: UInt32.self)
    default: place.storeBytes(of: number(), as: UInt64.self)
    }
  }

  private func number() -> UInt64 {
    generator.chance(50) ? generator.next() : Self.numbers.randomElement(using: &generator)!
  }

  /// A C string.
  private func text() -> (start: UnsafeMutableRawPointer, count: Int) {
    let most = generator.chance(95) ? 6 : Self.textBytes.count
    let count = Self.textBytes[Int.random(in: 0..<most, using: &generator)]
    let text = piece(count + 1)
    memset(text, Int32.random(in: 1...255, using: &generator), count)
    text.storeBytes(of: 0, toByteOffset: count, as: UInt8.self)
    return (text, count)
  }

  private func piece(_ bytes: Int) -> UnsafeMutableRawPointer {
    pieces.append(.allocate(byteCount: bytes, alignment: 16))
    return pieces.last!
  }
}

/// The messages of the schemas.
extension StructGenerator {
  /// Each message there is.
  static func descriptors() -> [Descriptor] {
    var found = [
      descriptor(callmesh__v1__client_frame__init), descriptor(callmesh__v1__server_frame__init),
      descriptor(callmesh__v1__error_body__init), descriptor(callmesh__v1__refusal_body__init),
      descriptor(callmesh__v1__command_batch__init), descriptor(callmesh__v1__edge_batch__init),
      descriptor(callmesh__v1__heartbeat__init), descriptor(callmesh__v1__announce_request__init),
      descriptor(callmesh__v1__announce_done__init), descriptor(callmesh__v1__lease__init),
      descriptor(callmesh__v1__cluster_record__init), descriptor(callmesh__v1__token_owner__init),
      descriptor(callmesh__v1__push_job__init), descriptor(callmesh__v1__push_keys__init),
      descriptor(callmesh__v1__push_never_sent__init),
      descriptor(callmesh__v1__push_withdrawal__init),
      descriptor(callmesh__v1__journal_record__init), descriptor(callmesh__v1__checkpoint__init),
      descriptor(callmesh__v1__registration_record__init),
      descriptor(callmesh__v1__rules_record__init),
      descriptor(callmesh__v1__call_records__init),
      descriptor(callmesh__v1__history_record__init),
      descriptor(callmesh__v1__app_place_body__init),
    ]
    var index = 0
    while index < found.count {
      for message in messages(within: found[index]) where !found.contains(message) {
        found.append(message)
      }
      index += 1
    }
    return found
  }

  private static func descriptor<Message>(
    _ initialize: (UnsafeMutablePointer<Message>?) -> Void
  ) -> Descriptor {
    let message = UnsafeMutablePointer<Message>.allocate(capacity: 1)
    defer { message.deallocate() }
    initialize(message)
    return UnsafeRawPointer(message).load(as: ProtobufCMessage.self).descriptor
  }

  /// Whether the message, or one within it, has a field of type `bool`.
  static func holdsFlags(_ message: Descriptor) -> Bool {
    fields(message).contains { $0.type == PROTOBUF_C_TYPE_BOOL }
      || messages(within: message).contains(where: holdsFlags)
  }

  private static func messages(within message: Descriptor) -> [Descriptor] {
    fields(message).filter { $0.type == PROTOBUF_C_TYPE_MESSAGE }
      .map { $0.descriptor.assumingMemoryBound(to: ProtobufCMessageDescriptor.self) }
  }

  private static func fields(_ message: Descriptor) -> UnsafeBufferPointer<ProtobufCFieldDescriptor>
  {
    UnsafeBufferPointer(start: message.pointee.fields, count: Int(message.pointee.n_fields))
  }
}
