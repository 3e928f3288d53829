/// Something that reads bytes of strangers, to be fed: by libFuzzer (`make fuzz`) with what it thinks up,
/// by `CallFuzzTests` with all that was ever of interest (`Tests/Corpora`).
///
/// It must not trap, and throws where what it made of the bytes breaks a promise.
public struct FuzzTarget: Sendable {
  public typealias Run = (UnsafeRawBufferPointer) throws -> Void

  /// Also of its folder in `Tests/Corpora`.
  public let name: String
  /// libFuzzer tries nothing longer.
  public let bytesMax: Int
  /// To be called, as what it returns, on one thread.
  public let make: @Sendable () throws -> Run

  init(_ name: String, bytesMax: Int = 4096, make: @escaping @Sendable () throws -> Run) {
    self.name = name
    self.bytesMax = bytesMax
    self.make = make
  }

  init(_ name: String, bytesMax: Int = 4096, run: @escaping @Sendable ([UInt8]) throws -> Void) {
    self.init(name, bytesMax: bytesMax) { { try run(Array($0)) } }
  }

  public static let all: [FuzzTarget] =
    [deviceProtobuf, deviceJSON, httpBodies, cluster, journal, pushMessages]
    + [webSocket, webSocketClient, edge, httpParts, hookAnswers]
    + [token, capability, appKeys]
    + [subscription, pushReaders, providerAnswers, files]
    + [jetStream, administration, shard]
}

extension FuzzTarget: CustomStringConvertible {
  public var description: String { name }
}

/// A promise that was broken.
struct Broken: Error, CustomStringConvertible {
  var description: String
}

func promise(_ holds: Bool, _ sentence: @autoclosure () -> String) throws {
  if !holds { throw Broken(description: sentence()) }
}

extension [UInt8] {
  var text: String { String(decoding: self, as: UTF8.self) }

  /// Takes a byte that chooses something; 0 where there is none.
  mutating func takeChoice() -> Int { isEmpty ? 0 : Int(removeFirst()) }
}
