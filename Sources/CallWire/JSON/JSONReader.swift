internal import FoundationEssentials

/// Reads JSON with the library's decoder and sorts what can go wrong into faults.
enum JSONReader {
  static func read<Value: Decodable>(
    _ type: Value.Type, _ bytes: UnsafeRawBufferPointer
  ) throws(Fault) -> Value {
    guard let base = bytes.baseAddress, bytes.count > 0 else { throw .malformed }
    // The decoder copies what it keeps, and is gone before `bytes` is.
    let data = Data(
      bytesNoCopy: UnsafeMutableRawPointer(mutating: base), count: bytes.count, deallocator: .none)
    do {
      return try JSONDecoder().decode(type, from: data)
    } catch let fault as Fault {
      throw fault
    } catch let error as DecodingError {
      throw Fault(error)
    } catch {
      throw .malformed
    }
  }
}

extension Fault {
  fileprivate init(_ error: DecodingError) {
    let context: DecodingError.Context
    switch error {
    case .typeMismatch(_, let known), .valueNotFound(_, let known), .keyNotFound(_, let known),
      .dataCorrupted(let known):
      context = known
    @unknown default:
      self = .malformed
      return
    }
    guard !context.codingPath.isEmpty else {
      self = .malformed
      return
    }
    // The path holds nothing but our own keys and indices.
    self = .field(context.codingPath.map(\.stringValue).joined(separator: "."))
  }
}
