/// Base64 as JetStream writes it: the standard alphabet, padded.
package enum Base64 {
  private static let values: [UInt8] = {
    var table = [UInt8](repeating: 255, count: 256)
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (index, character) in alphabet.utf8.enumerated() { table[Int(character)] = UInt8(index) }
    return table
  }()

  /// Nil when the text is not base64.
  package static func decode(_ text: [UInt8]) -> [UInt8]? {
    var count = text.count
    while count > 0, text[count - 1] == UInt8(ascii: "=") { count -= 1 }
    guard text.count % 4 == 0, text.count - count <= 2 else { return nil }
    var out: [UInt8] = []
    out.reserveCapacity(count * 3 / 4)
    let table = values
    var bits: UInt32 = 0
    var held: UInt32 = 0
    for character in text[..<count] {
      let value = table[Int(character)]
      guard value < 64 else { return nil }
      bits = bits << 6 | UInt32(value)
      held += 6
      if held >= 8 {
        held -= 8
        out.append(UInt8(truncatingIfNeeded: bits >> held))
      }
    }
    return out
  }
}
