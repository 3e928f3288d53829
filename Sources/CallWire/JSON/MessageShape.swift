internal import CCallProto
internal import CProtobufC

/// The JSON form of one message of device.proto, as protobuf-c describes the message: names in lowerCamelCase,
/// call ids as UUID text, enums by the names of their cases.
///
/// The schema is the only description of a message; `MessageReader` and `MessageWriter` work from this one.
/// It is unchecked since it points to the generated descriptor, a constant; nothing here changes.
@safe
final class MessageShape: @unchecked Sendable {
  /// A class, since a copy of a value would retain each of its members.
  final class Field: Sendable {
    /// The schema's `hang_up` is `hangUp` here.
    let key: String
    /// The beginning of a member: `"hangUp":`.
    let quotedKey: [UInt8]
    let number: UInt32
    let type: ProtobufCType
    let isRepeated: Bool
    /// Whether it is one of several that exclude each other.
    let isChoice: Bool
    let isAlwaysWritten: Bool
    let offset: Int
    /// Where the count of a repeated field stands, or the number of the choice that was made.
    let quantifierOffset: Int
    /// The shape of the messages, for a field that holds messages.
    let message: MessageShape?
    /// The names and numbers of the cases, for a field that holds cases of an enum.
    let cases: [(name: String, number: Int32)]

    init(_ field: ProtobufCFieldDescriptor, of message: String) {
      key = unsafe camelCase(String(cString: field.name))
      quotedKey = Array("\"\(key)\":".utf8)
      number = unsafe field.id
      type = unsafe field.type
      isRepeated = unsafe field.label == PROTOBUF_C_LABEL_REPEATED
      isChoice = unsafe field.flags & UInt32(PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue) != 0
      isAlwaysWritten = alwaysWritten.contains("\(message).\(key)")
      offset = unsafe Int(field.offset)
      quantifierOffset = unsafe Int(field.quantifier_offset)
      self.message =
        unsafe field.type == PROTOBUF_C_TYPE_MESSAGE
        ? MessageShape(field.descriptor.assumingMemoryBound(to: ProtobufCMessageDescriptor.self))
        : nil
      cases =
        unsafe field.type == PROTOBUF_C_TYPE_ENUM
        ? MessageShape.cases(
          field.descriptor.assumingMemoryBound(to: ProtobufCEnumDescriptor.self).pointee)
        : []
    }

    func isNamed(_ name: UnsafeRawBufferPointer) -> Bool {
      unsafe quotedKey.count == name.count + 3 && quotedKey[1...name.count].elementsEqual(name)
    }
  }

  let fields: [Field]
  private let descriptor: UnsafePointer<ProtobufCMessageDescriptor>

  /// The fields that stand in the JSON even where they are 0, false or empty. Any other such field is left out.
  private static let alwaysWritten: Set<String> = [
    "AckItem.version", "AnswerResult.won", "AppCall.placedAtMs", "AppDevice.attached",
    "AppDevice.registered", "CallGroup.order", "CallGroup.turnSeconds", "Attached.pingSeconds",
    "Attached.serverTimeMs",
    "CallState.atMs", "CallState.phase", "CallState.version", "Decline.scope", "Delivery.atMs",
    "Delivery.version", "Error.code", "Error.message", "Error.name", "Header.value",
    "HistoryEntry.endedMs", "HistoryEntry.placed", "HistoryEntry.placedMs", "HistoryEntry.user",
    "HistoryPage.cursor", "HistoryPage.unread", "HistoryState.cursor", "HistoryState.unread",
    "Invite.deadlineMs", "Notice.kind", "Notice.message", "Ongoing.version",
    "OngoingCall.device", "OngoingCall.placed", "OngoingCall.sinceMs", "OngoingCall.user",
    "Party.device", "Party.user", "Registered.expiresAtMs", "Reply.id", "Signal.body",
    "SignalItem.body", "SignalItem.index", "SignalItem.kind", "UserRules.changedAtMs",
    "UserRules.firstSeconds", "UserRules.noAnswerSeconds",
  ]

  /// - Parameter make: the message's generated initialiser.
  convenience init<Message>(of make: (UnsafeMutablePointer<Message>?) -> Void) {
    let descriptor = unsafe Arena.withArena { arena in
      // Every generated struct begins with its `ProtobufCMessage`.
      unsafe UnsafeRawPointer(arena.make(make)).load(as: ProtobufCMessage.self).descriptor
    }
    unsafe self.init(descriptor!)
  }

  private init(_ descriptor: UnsafePointer<ProtobufCMessageDescriptor>) {
    unsafe self.descriptor = unsafe descriptor
    let name = unsafe String(cString: descriptor.pointee.short_name)
    fields = unsafe (0..<Int(descriptor.pointee.n_fields)).map { index in
      unsafe Field(descriptor.pointee.fields[index], of: name)
    }
  }

  /// `PUSH_PROVIDER_WEB_PUSH` of `PushProvider` is `webPush`.
  private static func cases(_ descriptor: ProtobufCEnumDescriptor) -> [(String, Int32)] {
    let name = unsafe String(cString: descriptor.short_name)
    let prefix = 1 + name.count + name.dropFirst().count { $0.isUppercase }
    return unsafe (0..<Int(descriptor.n_values)).map { index in
      let value = unsafe descriptor.values[index]
      return unsafe (
        camelCase(String(cString: value.name).dropFirst(prefix).lowercased()), value.value
      )
    }
  }

  private static func camelCase(_ name: String) -> String {
    let words = name.split(separator: "_")
    return words.dropFirst().reduce(String(words.first ?? "")) {
      $0 + $1.prefix(1).uppercased() + $1.dropFirst()
    }
  }

  func field(_ key: JSONKey) -> Field? {
    switch key {
    case .plain(let name): fields.first { unsafe $0.isNamed(name) }
    case .unescaped(let name): fields.first { $0.key == name }
    }
  }

  /// An empty message of this shape; nil where the arena has reached its limit.
  func make(in arena: Arena) -> UnsafeMutableRawPointer? {
    guard let message = unsafe arena.allocate(descriptor.pointee.sizeof_message) else { return nil }
    unsafe protobuf_c_message_init(descriptor, message)
    return unsafe message
  }
}

extension MessageShape {
  static let clientFrame = unsafe MessageShape(of: callmesh__v1__client_frame__init)
  static let serverFrame = unsafe MessageShape(of: callmesh__v1__server_frame__init)
  static let register = unsafe MessageShape(of: callmesh__v1__register__init)
  static let registered = unsafe MessageShape(of: callmesh__v1__registered__init)
  static let refusal = unsafe MessageShape(of: callmesh__v1__refusal_body__init)
  static let callState = unsafe MessageShape(of: callmesh__v1__call_state__init)
  static let history = unsafe MessageShape(of: callmesh__v1__history_page__init)
  static let historyRead = unsafe MessageShape(of: callmesh__v1__history_read__init)
  static let userRules = unsafe MessageShape(of: callmesh__v1__user_rules__init)
  static let appUser = unsafe MessageShape(of: callmesh__v1__app_user__init)
  static let appCalls = unsafe MessageShape(of: callmesh__v1__app_calls__init)
  static let appCall = unsafe MessageShape(of: callmesh__v1__app_call__init)
  static let appPlace = unsafe MessageShape(of: callmesh__v1__app_place_body__init)
  static let callGroup = unsafe MessageShape(of: callmesh__v1__call_group__init)
  static let displayName = unsafe MessageShape(of: callmesh__v1__display_name__init)
  static let callRecord = unsafe MessageShape(of: callmesh__v1__call_record__init)
  static let error = unsafe MessageShape(of: callmesh__v1__error_body__init)
}
