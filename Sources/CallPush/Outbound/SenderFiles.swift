internal import FoundationEssentials

/// Reads the small files of a sender's configuration.
enum SenderFiles {
  /// More is no key file.
  static let bytesMax = 1 << 20

  static func read(
    _ path: String, sender: String
  ) throws(SenderConfigurationError) -> [UInt8] {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw SenderConfigurationError(
        sender: sender, place: path, what: "the file cannot be read (\(plain(error)))",
        remedy: "give the path of a file that this user may read")
    }
    guard data.count <= bytesMax else {
      throw SenderConfigurationError(
        sender: sender, place: path, what: "the file is larger than \(bytesMax) bytes",
        remedy: "give the path of the right file")
    }
    return Array(data)
  }

  private static func plain(_ error: any Error) -> String {
    switch (error as? CocoaError)?.code {
    case .fileReadNoSuchFile: "there is no such file"
    case .fileReadNoPermission: "this user may not read it"
    default: "it is not a readable file"
    }
  }
}
