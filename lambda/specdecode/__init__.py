"""Does speculative decoding pay on AWS Trainium2? Everything of this project that runs without CDK."""

__version__ = "0.1.0"
