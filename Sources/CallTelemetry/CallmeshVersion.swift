/// The version of this build, as nodes report it and `--version` prints it.
public enum CallmeshVersion {
  public static let current = "0.1.0"
}
