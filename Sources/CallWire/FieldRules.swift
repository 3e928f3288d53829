public import CallCore

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// How long fields may be, and what text they may hold. `IdentifierRules` has the rules for ids.
public enum FieldRules {
  /// The maximum length of a token of APNs or FCM, in bytes.
  public static let pushTokenBytesMaximum = 1024
  /// The maximum length of a Web Push subscription as it comes, in bytes: browsers add members that are not kept.
  public static let subscriptionBytesMaximum = 4096
  /// The maximum length of a bearer token in `attach`, in bytes.
  public static let bearerTokenBytesMaximum = 4096
  /// The maximum length in bytes of names that people or operators read: of devices, clients, SDKs, dialects.
  public static let nameBytesMaximum = DisplayName.bytesMax
  /// Acknowledgements in one frame.
  public static let ackItemsMaximum = 256
  /// Numbers on the wire fit the integers of a double.
  public static let numberMaximum: UInt64 = 1 << 53 - 1

  /// - Throws: `invalidDevice`.
  public static func checkDeviceID(_ text: String) throws(CallError) {
    guard IdentifierRules.isDevice(text) else { throw CallError(.invalidDevice) }
  }

  /// At most `nameBytesMaximum` bytes of printable text; may be empty.
  public static func name(_ text: String) -> Bool {
    text.utf8.count <= nameBytesMaximum && isPrintable(text)
  }

  /// The text as a name that only people read. A label never costs a phone its calls: it is cut and cleaned as display
  /// names are.
  public static func label(_ text: String) -> String {
    name(text) ? text : DisplayName.shown(text)
  }

  /// Whether the text has no control character (C0, DEL, C1) and no line or paragraph separator.
  public static func isPrintable(_ text: String) -> Bool {
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0..<0x20, 0x7f..<0xa0, 0x2028, 0x2029: return false
      default: continue
      }
    }
    return true
  }

  /// Text that no layer can cut short: NUL would end it in C.
  static func hasNoNUL(_ text: String) -> Bool {
    let fast = unsafe text.utf8.withContiguousStorageIfAvailable { utf8 in
      unsafe utf8.isEmpty || memchr(utf8.baseAddress!, 0, utf8.count) == nil
    }
    return fast ?? !text.utf8.contains(0)
  }
}
